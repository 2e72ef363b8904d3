-- expect: stopped
-- attack: recursion without end, caught for ever
local function f() return 1 + f() end
while true do pcall(f) end
