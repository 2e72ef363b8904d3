-- expect: stopped
-- attack: refused sessions without end, caught
while true do pcall(session, "x") end
