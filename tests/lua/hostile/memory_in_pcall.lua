-- expect: stopped
-- attack: lack of memory is caught for ever
local kept = {}
while true do
    pcall(function()
        while true do kept[#kept + 1] = string.rep("x", 1000000) .. #kept end
    end)
end
