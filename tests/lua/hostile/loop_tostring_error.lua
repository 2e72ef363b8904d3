-- expect: stopped
-- attack: an error object whose __tostring loops, caught and shown for ever
local e = setmetatable({}, { __tostring = function() while true do end end })
while true do
    pcall(function() error(tostring(e)) end)
end
