--[==[
about: the deadline ends a script that waits, whatever it catches
deadline: 1.5
sessions:
  - {text: ok}
log: |
  before
end: stops
]==]
local clock = require("@std/clock")
session("x")
print("before")
pcall(clock.sleep, 1000)
print("after")
return "never"
