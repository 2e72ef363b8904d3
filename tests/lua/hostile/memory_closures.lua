-- expect: memory
-- attack: closures that grow without end
local t = {}
while true do
    local x = table.create(1000, 1)
    t[#t + 1] = function() return x end
end
