-- expect: stopped
-- attack: the plainest endless loop
while true do end
