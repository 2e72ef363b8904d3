--[==[
about: the limit of sessions refuses, and names itself
session_limit: 2
sessions:
  - {text: ok}
log: |
  1
  2
  refused sessions: a script may hold 2 sessions, and this would be one more
  sessions
end: returns done
]==]
local stop = require("@std/stop")
print(tostring(session("x").index))
print(tostring(session("x").index))
local _, err = pcall(session, "x")
print(`{err.kind} {err.limit}: {err.message}`)
print(stop.kind(err))
return "done"
