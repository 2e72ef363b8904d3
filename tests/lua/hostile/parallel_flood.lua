-- expect: error at most 1000 items
-- attack: more branches than allowed
require("@std/parallel").map(table.create(100000, 1), function() end)
