local t = require("@std/test")

t.test("goes on until the marker file is there", function()
    local run = t.run({
        prompt = "Port it.",
        sessions = {
            { files = { [".refrain/progress.md"] = "half" } },
            { text = "all", files = { [".refrain/done"] = "" } },
        },
    })
    t.ok(run.ok, run.error)
    t.equal(run.value, { note = "done after 2 session(s)", sessions = 2, done = true })
    t.contains(run.sessions[1].prompt, ".refrain/progress.md")
    t.contains(run.sessions[1].prompt, "Port it.")
end)

t.test("stops at the session cap", function()
    local run = t.run({ params = { max_sessions = 4 } })
    t.equal({ #run.sessions, run.value.done }, { 4, false })
end)

t.test("stops after failures in a row, and only then", function()
    local run = t.run({
        params = { max_failures = 2, max_sessions = 10 },
        sessions = { { ok = false }, {}, { ok = false }, { ok = false, reason = "broken" } },
    })
    t.equal(#run.sessions, 4)
    t.contains(run.note, "broken")
end)

t.test("begins no session that has no time left", function()
    local run = t.run({
        params = { reserve_seconds = 30 },
        sessions = function()
            return { duration = 50 }
        end,
        deadline = 120,
    })
    t.equal(#run.sessions, 2)
end)
