-- expect: error a table was raised
-- attack: an error object with looping metamethods reaches the host, which must not run them
local loop = function() while true do end end
error(setmetatable({}, { __tostring = loop, __index = loop, __len = loop, __eq = loop }))
