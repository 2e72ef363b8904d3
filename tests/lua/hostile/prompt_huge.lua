-- expect: error at most
-- attack: a prompt of ten megabytes
session(string.rep("x", 10000000))
