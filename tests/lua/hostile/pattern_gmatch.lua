-- expect: stopped
-- attack: a catastrophic pattern in gmatch
for _ in string.gmatch(string.rep("a", 5000), string.rep("a-", 40) .. "b") do end
