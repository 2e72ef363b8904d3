-- expect: stopped
-- attack: everything is caught, for ever
local function go()
    local ok = pcall(function()
        session("x")
        error({})
    end)
    return go
end
while true do
    xpcall(go, function() return go() end)
end
