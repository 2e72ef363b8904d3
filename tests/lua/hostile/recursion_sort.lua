-- expect: error
-- attack: recursion through sort
local function f() table.sort({ 1, 2, 3 }, function(a, b) f() return a < b end) end
f()
