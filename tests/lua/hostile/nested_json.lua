-- expect: error nested more than
-- attack: the same through json
local t = {}
for _ = 1, 10000 do t = { t } end
return require("@std/json").encode(t)
