-- Copies of the workspace.
host.use("workspace")

local parallel = require("@std/parallel")
local workspace = require("@std/workspace")

local fork = {}

function fork.create(...)
    host.check("fork.create", ...)
    local from = ...
    return host.fork((from or workspace.main).id)
end

function fork.merge(...)
    host.check("fork.merge", ...)
    local from, into = ...
    host.merge(from, into or workspace.main)
end

function fork.discard(...)
    host.check("fork.discard", ...)
    host.discard((...))
end

function fork.each(...)
    host.check("fork.each", ...)
    local n, fn = ...
    -- All copies are made first, so that they are copies of the same state.
    local forks = table.create(n)
    for index = 1, n do
        forks[index] = fork.create()
    end
    return parallel.map(forks, fn), forks
end

return fork
