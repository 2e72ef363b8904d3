-- expect: stopped
-- attack: natives over a long string, again and again
local s = string.rep("ä", 5000000)
while true do
    utf8.len(s)
end
