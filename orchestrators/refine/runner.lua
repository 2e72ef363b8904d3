-- Try, run the checks, say what failed, try again.
local checks = require("@std/checks")
local prompt = require("@std/prompt")

local last = session(task.prompt, { label = "first try" })
local report = checks.run()
local rounds = 1

while not report.ok and rounds < params.max_rounds and deadline.remaining() >= params.reserve_seconds do
    rounds += 1
    local text = prompt.join({
        "The checks fail. Fix the code.",
        prompt.section("The task", task.prompt),
        prompt.section("Output of the checks", prompt.fence(report.output)),
    })
    last = session(text, { label = `round {rounds}`, continue = if last.resumable then last else nil })
    report = checks.run()
end

local state = if report.ok then "pass" else "fail"
return { note = `the checks {state} after {rounds} round(s); the last session: {last.reason}`, rounds = rounds }
