-- expect: stopped
-- attack: a comparator that loops
table.sort({ 1, 2, 3 }, function() while true do end end)
