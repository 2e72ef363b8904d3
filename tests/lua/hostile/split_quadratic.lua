-- expect: error too long together
-- attack: a split with a huge separator
return string.split(string.rep("a", 8000000), string.rep("a", 4000000) .. "b")
