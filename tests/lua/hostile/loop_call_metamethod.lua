-- expect: stopped
-- attack: __call calls itself through pcall
local t
t = setmetatable({}, { __call = function() while true do pcall(t) end end })
t()
