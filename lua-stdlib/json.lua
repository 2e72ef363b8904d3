-- JSON.
host.use("data")

local json = { null = host.json_null() }

function json.encode(...)
    host.check("json.encode", ...)
    local value, options = ...
    return host.json_encode(value, options and options.pretty)
end

function json.decode(...)
    host.check("json.decode", ...)
    return host.json_decode((...))
end

function json.extract(...)
    host.check("json.extract", ...)
    return host.json_extract((...))
end

return json
