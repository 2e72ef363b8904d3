local t = require("@std/test")

local task = {
    prompt = "Add a cache.",
    phases = {
        { name = "implement" },
        { name = "review", role = "review", input = "diff", prompt = "Review this." },
        { name = "polish", input = "output", prompt = "Polish.", timeout = 30 },
        { name = "revise", input = "review_feedback", prompt = "Revise." },
    },
}

t.test("gives each phase its role, limit and input", function()
    local run = t.run({
        task = task,
        sessions = {
            { text = "implemented", files = { ["cache.py"] = "cache = {}\n" } },
            { text = "too small" },
            { text = "polished" },
            { text = "revised" },
        },
    })
    t.ok(run.ok, run.error)
    t.equal(#run.sessions, 4)
    local first, review, polish, revise = table.unpack(run.sessions)
    t.equal({ first.prompt, first.role, first.phase }, { "Add a cache.", "implementation", "implement" })
    t.equal({ review.role, review.phase }, { "review", "review" })
    t.contains(review.prompt, "Review this.\n\n## Changes so far\n\n```diff\n--- /dev/null\n+++ b/cache.py\n+cache = {}\n```")
    t.equal(polish.timeout, 30)
    t.contains(polish.prompt, "too small")
    t.contains(revise.prompt, "## Review feedback\n\ntoo small")
    t.contains(run.note, "4 of 4 phases")
end)

t.test("goes on after a failed phase, unless told not to", function()
    local sessions = function(call)
        return { ok = call.phase ~= "review", reason = "broken" }
    end
    t.equal(#t.run({ task = task, sessions = sessions }).sessions, 4)
    local run = t.run({ task = task, sessions = sessions, params = { stop_on_failure = true } })
    t.equal(#run.sessions, 2)
    t.contains(run.note, "broken")
end)

t.test("says what is wrong with a task without phases", function()
    local run = t.run({})
    t.contains(run.error, "the task has no phases")
end)
