-- expect: stopped
-- attack: branches that all wait when the deadline comes
local parallel = require("@std/parallel")
local clock = require("@std/clock")
parallel.map({ 1, 2, 3 }, function()
    parallel.map({ 1, 2, 3 }, function() clock.sleep(3600) end)
end)
