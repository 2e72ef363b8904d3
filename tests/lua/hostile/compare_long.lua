-- expect: stopped
-- attack: comparisons of long strings
local a, b = string.rep("a", 10000000) .. "1", string.rep("a", 10000000) .. "2"
while true do
    local _ = a < b
end
