-- expect: stopped
-- attack: native sorts of many numbers, again and again
local t = table.create(1000000, 0)
while true do
    for i = 1, #t do t[i] = math.random() end
    table.sort(t)
end
