-- expect: error
-- attack: recursion through __index
local t = setmetatable({}, {})
getmetatable(t).__index = function(_, k) return t[k .. "x"] end
return t.x
