-- expect: stopped
-- attack: pcall within pcall, as deep as it goes, for ever
local function f()
    while true do
        pcall(f)
    end
end
f()
