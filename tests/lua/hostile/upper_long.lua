-- expect: stopped
-- attack: copies of a long string, again and again
local s = string.rep("a", 10000000)
while true do
    s:upper()
end
