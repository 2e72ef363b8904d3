-- expect: stopped
-- attack: a loop inside a gsub callback
string.gsub("x", ".", function() while true do end end)
