-- expect: error too long together
-- attack: a plain search that compares n times m bytes and never asks to go on
local s = string.rep("a", 8000000)
local p = string.rep("a", 4000000) .. "b"
return string.find(s, p, 1, true)
