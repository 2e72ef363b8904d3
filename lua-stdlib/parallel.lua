-- Branches that run at the same time.
host.use("parallel")

local parallel = {}

function parallel.map(...)
    host.check("parallel.map", ...)
    local list, fn, options = ...
    return host.map(list, fn, options and options.width)
end

return parallel
