-- expect: error must be a string
-- attack: a prompt that only looks like a string
session(setmetatable({}, { __tostring = function() return "x" end }))
