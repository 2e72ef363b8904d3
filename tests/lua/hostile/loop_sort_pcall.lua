-- expect: stopped
-- attack: a comparator with protected loops
while true do
    pcall(table.sort, { 1, 2, 3 }, function()
        while true do
            pcall(function() while true do end end)
        end
    end)
end
