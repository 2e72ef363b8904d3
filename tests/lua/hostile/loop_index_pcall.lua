-- expect: stopped
-- attack: protected loops inside a metamethod
local t = setmetatable({}, { __index = function()
    while true do
        pcall(function() while true do end end)
    end
end })
while true do
    pcall(function() return t.x end)
end
