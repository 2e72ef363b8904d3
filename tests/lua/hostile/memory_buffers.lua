-- expect: memory
-- attack: many buffers
local t = {}
while true do t[#t + 1] = buffer.create(1000000) end
