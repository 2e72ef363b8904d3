-- expect: stopped
-- attack: branches that loop, within branches
local parallel = require("@std/parallel")
local function work(depth)
    if depth == 0 then
        while true do pcall(function() while true do end end) end
    end
    parallel.map({ 1, 2 }, function() work(depth - 1) end)
end
work(3)
