-- expect: memory
-- attack: a string doubled until memory ends
local s = "x"
while true do s = s .. s end
