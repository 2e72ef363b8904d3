-- expect: returns
-- attack: a comparator that contradicts itself
local t = {}
for i = 1, 1000 do t[i] = math.random(1000) end
local ok, err = pcall(table.sort, t, function() return true end)
return { ended = true, ok = ok }
