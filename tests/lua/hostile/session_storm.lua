-- expect: error a script may hold
-- attack: sessions without end
while true do session("x") end
