-- expect: stopped
-- attack: __tostring loops while the host logs
print(setmetatable({}, { __tostring = function() while true do end end }))
