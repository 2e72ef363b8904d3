-- expect: error must be the result of an earlier session
-- attack: a result that the script made itself
session("x", { ["continue"] = { index = 1, ok = true } })
