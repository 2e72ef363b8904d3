-- The task's visible checks.
host.use("process")

local checks = {}

function checks.run(...)
    host.check("checks.run", ...)
    local options = ...
    return host.checks(options or {})
end

return checks
