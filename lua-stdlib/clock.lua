-- The run's clock; in a strategy test, a virtual one.
local clock = {}

function clock.now(...)
    host.check("clock.now", ...)
    return host.now()
end

function clock.sleep(...)
    host.check("clock.sleep", ...)
    host.sleep((...))
end

return clock
