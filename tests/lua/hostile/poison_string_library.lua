-- expect: error readonly
-- attack: the string library cannot be changed
string.upper = function() return "poisoned" end
