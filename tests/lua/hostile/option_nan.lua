-- expect: error got NaN
-- attack: NaN as an option
session("x", { timeout = 0 / 0 })
