-- expect: stopped
-- attack: inserts at the front of a large table
local t = table.create(500000, 1)
while true do
    table.insert(t, 1, 1)
end
