-- expect: error readonly
-- attack: nor its metatable
getmetatable("").__index = function() return "poisoned" end
