-- expect: error stack overflow
-- attack: recursion without end
local function f() return 1 + f() end
return f()
