-- expect: stopped
-- attack: options whose __index and __len loop are read without them
local loop = function() while true do end end
session("x", setmetatable({}, { __index = loop, __len = loop }))
while true do end
