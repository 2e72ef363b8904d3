-- expect: stopped
-- attack: an endless loop with arithmetic
local x = 0
repeat x += 1 until false
