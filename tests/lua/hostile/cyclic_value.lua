-- expect: error contains itself
-- attack: a value that contains itself
local t = {}
t.t = t
return t
