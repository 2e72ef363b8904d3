-- expect: error
-- attack: recursion through a native callback
local function f() return (string.gsub("x", ".", f)) end
return f()
