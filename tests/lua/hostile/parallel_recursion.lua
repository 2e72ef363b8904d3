-- expect: error
-- attack: branches within branches without end
local parallel = require("@std/parallel")
local function f() parallel.map({ 1 }, f) end
f()
