-- expect: error
-- attack: a metatable chain that is a circle
local a, b = {}, {}
setmetatable(a, { __index = b })
setmetatable(b, { __index = a })
return a.x
