-- expect: stopped
-- attack: each try is protected
while true do
    pcall(function()
        while true do end
    end)
end
