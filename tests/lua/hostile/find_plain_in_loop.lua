-- expect: stopped
-- attack: plain searches just below the bound, again and again
local s = string.rep("a", 20000)
local p = string.rep("a", 10000) .. "b"
while true do
    s:find(p, 1, true)
end
