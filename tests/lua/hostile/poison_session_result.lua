-- expect: error readonly
-- attack: a session's result cannot be changed
local s = session("x")
rawset(s, "ok", true)
