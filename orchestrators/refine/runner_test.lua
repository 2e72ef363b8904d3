local t = require("@std/test")

local function passes(ws)
    return if ws:exists("ok") then true else { ok = false, output = "1 test failed" }
end

t.test("stops as soon as the checks pass", function()
    local run = t.run({
        params = { max_rounds = 5 },
        prompt = "Fix it",
        sessions = { { text = "tried" }, { text = "done", files = { ["ok"] = "1" } } },
        checks = passes,
        deadline = 600,
    })
    t.equal(#run.sessions, 2)
    t.contains(run.sessions[2].prompt, "1 test failed")
    t.contains(run.sessions[2].prompt, "Fix it")
    t.equal(run.sessions[2].continue, 1)
    t.contains(run.note, "pass after 2 round(s)")
end)

t.test("holds no more sessions than allowed", function()
    local run = t.run({ params = { max_rounds = 3 }, checks = false })
    t.equal(#run.sessions, 3)
    t.contains(run.note, "fail after 3")
end)

t.test("begins no round that has no time left", function()
    local run = t.run({
        params = { max_rounds = 10, reserve_seconds = 60 },
        sessions = function()
            return { duration = 100 }
        end,
        checks = false,
        deadline = 350,
    })
    t.equal(#run.sessions, 3)
    t.equal(run.elapsed, 300)
end)

t.test("a session that outlives the deadline ends the script", function()
    local run = t.run({ sessions = { { duration = 1000 } }, deadline = 600 })
    t.equal({ run.stopped, run.elapsed }, { "deadline", 600 })
end)
