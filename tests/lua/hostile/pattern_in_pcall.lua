-- expect: stopped
-- attack: protected catastrophic patterns
local s = string.rep("a", 5000)
while true do
    pcall(string.match, s, string.rep(".-", 30) .. "b")
end
