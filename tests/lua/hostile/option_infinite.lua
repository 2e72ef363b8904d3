-- expect: error got inf
-- attack: infinity as an option
session("x", { max_cost = math.huge })
