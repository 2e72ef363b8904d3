-- expect: error
-- attack: more arguments than a stack holds
return math.max(unpack(table.create(7000, 1), 1, 7999), unpack(table.create(7999, 1)))
    + select("#", unpack(table.create(1000000, 1)))
