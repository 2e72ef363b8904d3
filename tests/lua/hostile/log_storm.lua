-- expect: stopped
-- attack: log lines without end
while true do log.info(string.rep("x", 1000)) end
