-- expect: stopped
-- attack: a pattern with exponential backtracking
local s = string.rep("a", 5000)
return string.find(s, string.rep("a-", 40) .. "b")
