-- expect: stopped
-- attack: moves just below the bound, again and again
local t = table.create(1000000, 1)
while true do
    table.move(t, 1, 1000000, 2)
end
