-- expect: error invalid value
-- attack: concat over a range without values
return table.concat({}, "", 1, 2 ^ 31 - 2)
