-- expect: error larger than
-- attack: a value of millions of fields
local t = table.create(300000, 1)
return { t = t }
