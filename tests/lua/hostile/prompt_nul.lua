-- expect: error a NUL at byte 2
-- attack: a prompt with NUL
session("a\0b")
