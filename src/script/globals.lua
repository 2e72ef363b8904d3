-- The host's own globals, from its primitives.
local host, strict, base = ...

local check = host.check
local send = host.log

base.session = host.session

base.deadline = strict({
    remaining = function(...)
        check("deadline.remaining", ...)
        return host.remaining()
    end,
}, "deadline")

local function shown(value)
    return if type(value) == "string" then value else tostring(value)
end

local log = {}
for _, level in { "debug", "info", "warn", "error" } do
    local path = "log." .. level
    log[level] = function(...)
        check(path, ...)
        send(level, shown((...)))
    end
end
base.log = strict(log, "log")

base.print = function(...)
    local parts = {}
    for index = 1, select("#", ...) do
        parts[index] = shown((select(index, ...)))
    end
    send("info", table.concat(parts, "\t"))
end

base.os = strict({
    time = function()
        return math.floor(host.now())
    end,
    clock = function()
        return host.now()
    end,
}, "os")
