-- n tries at once, each in a copy of the workspace; the one that passes most checks replaces the workspace.
local checks = require("@std/checks")
local fork = require("@std/fork")
local parallel = require("@std/parallel")
local stop = require("@std/stop")
local vote = require("@std/vote")

local forks = table.create(params.n)
for i = 1, params.n do
    forks[i] = fork.create()
end

local tries = parallel.map(forks, function(copy, i)
    local ok, result = pcall(session, task.prompt, { label = `try {i}`, workspace = copy })
    if not ok then
        -- Out of money or sessions: the tries that were held are judged all the same.
        if stop.kind(result) == nil or stop.kind(result) == "misuse" then
            error(result, 0)
        end
        return { held = false }
    end
    return { held = true, result = result, report = checks.run({ workspace = copy }) }
end, { width = params.width })

local best, at = vote.best(tries, function(try)
    if not try.held then
        return nil
    end
    -- Among tries that pass as many checks, one whose agent finished is better.
    return (if try.report.ok then 1e6 else 0) + try.report.passed + (if try.result.ok then 0.5 else 0)
end)

if best then
    fork.merge(forks[at])
end
for _, copy in forks do
    fork.discard(copy)
end

if not best then
    return { note = "no try was held" }
end
return { note = `try {at} of {params.n}: {best.report.passed} of {best.report.total} checks pass`, winner = at }
