-- expect: stopped
-- attack: the handler of an error loops
while true do
    xpcall(function()
        error("x")
    end, function()
        while true do end
    end)
end
