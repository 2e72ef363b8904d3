--[==[
about: a clock takes seconds, and only seconds
log: |
  clock.sleep: argument 1 (seconds) must be a finite number of seconds, 0 or more, got -1
  clock.sleep: argument 1 (seconds) must be a finite number of seconds, 0 or more, got inf
  clock.sleep: argument 1 (seconds) must be a finite number of seconds, 0 or more, got string
  clock.now: takes 0 arguments, got 1
  deadline.remaining: takes 0 arguments, got 1
end: returns done
]==]
local clock = require("@std/clock")
local function try(fn, ...)
    local _, err = pcall(fn, ...)
    print(err.message)
end
try(clock.sleep, -1)
try(clock.sleep, math.huge)
try(clock.sleep, "1")
try(clock.now, 1)
try(deadline.remaining, 1)
return "done"
