-- expect: error pattern too complex
-- attack: a pattern that recurses too deep
return string.match(string.rep("a", 300000), string.rep("(.-)", 20) .. string.rep("a?", 300000))
