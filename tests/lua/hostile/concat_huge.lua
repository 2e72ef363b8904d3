-- expect: stopped
-- attack: concat of a large table, again and again
local t = table.create(1000000, "x")
while true do
    table.concat(t)
end
