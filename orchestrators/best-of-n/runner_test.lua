local t = require("@std/test")

local function score(ws)
    local passed = tonumber(ws:read("score") or "0")
    return { ok = passed == 3, passed = passed, total = 3 }
end

t.test("keeps the try that passes most checks", function()
    local run = t.run({
        params = { n = 3 },
        sessions = function(call)
            return { files = { score = ({ "1", "3", "2" })[call.workspace] }, duration = 60 }
        end,
        checks = score,
    })
    t.ok(run.ok, run.error)
    t.equal(run.value.winner, 2)
    t.equal(run.files.score, "3")
    t.equal(run.open_forks, 0)
    t.equal(run.elapsed, 60, "the tries run at once")
end)

t.test("runs no more tries at once than allowed", function()
    local run = t.run({ params = { n = 4, width = 2 }, sessions = function() return { duration = 60 } end, checks = score })
    t.equal(run.elapsed, 120)
end)

t.test("among equals, prefers a try whose agent finished", function()
    local run = t.run({
        params = { n = 2 },
        sessions = function(call)
            return { ok = call.workspace == 2, files = { score = "1" } }
        end,
        checks = score,
    })
    t.equal(run.value.winner, 2)
end)

t.test("judges the tries that were held when money runs out", function()
    local run = t.run({
        params = { n = 3, width = 1 },
        budget = 1,
        sessions = function()
            return { cost = 0.6, files = { score = "2" } }
        end,
        checks = score,
    })
    t.equal(#run.sessions, 2)
    t.equal(run.files.score, "2")
    t.equal(run.open_forks, 0)
end)

t.test("says so when no try was held", function()
    local run = t.run({ params = { n = 2 }, budget = 0 })
    t.equal({ run.note, run.open_forks }, { "no try was held", 0 })
end)
