local t = require("@std/test")

t.test("revises until the review approves", function()
    local run = t.run({
        prompt = "Add a cache.",
        sessions = {
            { text = "implemented", files = { ["a.py"] = "x\n" } },
            { text = "Handle errors. Then it can be APPROVED." },
            { text = "revised" },
            { text = "Good.\n  APPROVED  \n" },
        },
    })
    t.ok(run.ok, run.error)
    t.equal(run.value, { note = "approved after 2 review(s)", reviews = 2, approved = true })
    local roles = {}
    for i, s in run.sessions do
        roles[i] = s.role
    end
    t.equal(roles, { "implementation", "review", "implementation", "review" })
    t.contains(run.sessions[2].prompt, "+x")
    t.contains(run.sessions[3].prompt, "Handle errors.")
    t.equal(run.sessions[3].continue, 1)
end)

t.test("ends after the last review allowed", function()
    local run = t.run({
        params = { max_reviews = 2 },
        sessions = function()
            return "no"
        end,
    })
    t.equal(#run.sessions, 5)
    t.equal(run.value.approved, false)
end)

t.test("a review that failed asks for no revision", function()
    local run = t.run({
        params = { max_reviews = 1 },
        sessions = { { text = "implemented" }, { ok = false, reason = "crashed" } },
    })
    t.equal(#run.sessions, 2)
end)
