-- expect: stopped
-- attack: large formats for ever
local s = string.rep("x", 1000000)
while true do
    string.format("%s%s%s", s, s, s)
end
