-- expect: stopped
-- attack: host calls that answer at once, without end
while true do deadline.remaining() end
