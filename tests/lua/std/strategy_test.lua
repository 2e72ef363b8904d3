local stop = require("@std/stop")
local t = require("@std/test")
local vote = require("@std/vote")

t.test("vote.majority counts, and the first of equals wins", function()
    local winner, count = vote.majority({ "a", "b", "b", "a", "c" })
    t.equal({ winner, count }, { "a", 2 })
    winner, count = vote.majority({ { x = 1 }, { x = 2 }, { x = 2 }, {} }, function(item)
        return item.x
    end)
    t.equal({ winner, count }, { 2, 2 })
    winner, count = vote.majority({ 0 / 0, 0 / 0, 1 })
    t.equal({ winner, count }, { 1, 1 })
    winner, count = vote.majority({})
    t.equal({ winner == nil, count }, { true, 0 })
end)

t.test("vote.best leaves out what has no score", function()
    local scores = { 1, 3, 0 / 0, 3 }
    local item, at, score = vote.best({ "a", "b", "c", "d", "e" }, function(_, i)
        return scores[i]
    end)
    t.equal({ item, at, score }, { "b", 2, 3 })
    t.equal(vote.best({}, function() end), nil)
    t.raises(function()
        vote.best({ 1 }, function()
            return "high"
        end)
    end, "score must return a number or nil, got a string for item 1")
end)

t.test("stop.kind tells refusals from other errors", function()
    t.equal(stop.kind("text"), nil)
    t.equal(stop.kind({ kind = "own" }), nil)
    local _, err = pcall(session)
    t.equal(stop.kind(err), "misuse")
end)

t.test("loop.rounds stops at each of its bounds", function()
    local function rounds(options)
        options.runner = "rounds.lua"
        local run = t.run(options)
        t.ok(run.ok, run.error)
        return run.value.rounds
    end
    local function minute()
        return { duration = 60, cost = 0.5 }
    end
    t.equal(rounds({ params = { max = 3 } }), 3)
    t.equal(rounds({ params = { max = 99, reserve = 100 }, deadline = 300, sessions = minute }), 4)
    t.equal(rounds({ params = { max = 99, min_budget = 0.6 }, budget = 2, sessions = minute }), 3)
end)

t.test("sessions of one script are counted and refused", function()
    local run = t.run({ runner = "rounds.lua", params = { max = 5 }, max_sessions = 2 })
    t.equal(#run.sessions, 2)
    t.contains(run.error, "a script may hold 2 sessions")
end)

t.test("random numbers follow the seed", function()
    local function draw(seed)
        return t.run({ runner = "random.lua", seed = seed }).value
    end
    t.equal(draw(1), draw(1))
    t.ok(draw(1)[1] ~= draw(2)[1])
end)

t.test("an hour of sleep costs nothing and the deadline comes when virtual time says so", function()
    local run = t.run({ runner = "sleeper.lua", deadline = 10000 })
    t.equal({ run.elapsed, run.stopped, #run.logs }, { 10000, "deadline", 2 })
end)
