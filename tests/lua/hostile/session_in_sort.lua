-- expect: error cannot wait
-- attack: a host call that waits, where Luau cannot yield
table.sort({ 1, 2, 3 }, function(a, b)
    require("@std/clock").sleep(1)
    return a < b
end)
