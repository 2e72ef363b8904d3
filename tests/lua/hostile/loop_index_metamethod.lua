-- expect: stopped
-- attack: an endless loop inside __index, where Luau cannot yield
local t = setmetatable({}, { __index = function() while true do end end })
return t.x
