-- expect: error
-- attack: a table of two thousand million slots
return table.create(2 ^ 31, 0)
