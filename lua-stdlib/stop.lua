-- What kind of stop an error is.
local stop = {}

function stop.kind(...)
    host.check("stop.kind", ...)
    local err = ...
    if type(err) ~= "table" then
        return nil
    end
    local kind = rawget(err, "kind")
    if kind == "refused" then
        return rawget(err, "limit")
    end
    return if kind == "misuse" then kind else nil
end

return stop
