-- expect: memory
-- attack: one huge string
return string.rep("x", 1000000000)
