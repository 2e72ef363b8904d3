-- expect: memory
-- attack: a split into millions of parts
return #string.split(string.rep(",", 20000000), ",")
