-- expect: error nested more than
-- attack: a value nested ten thousand deep goes to the host
local t = {}
for _ = 1, 10000 do t = { t } end
return { t = t }
