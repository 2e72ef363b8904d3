--[==[
about: time passes for the script as it does for the host
deadline: 30
log: |
  within the deadline
  less is left
  at least what was slept
  what is left and what passed make the deadline
end: returns done
]==]
local clock = require("@std/clock")
local before, began = deadline.remaining(), clock.now()
print(if before > 20 and before <= 30 then "within the deadline" else `{before}`)
clock.sleep(0.2)
clock.sleep(0)
print(if deadline.remaining() <= before - 0.2 then "less is left" else "no less is left")
print(if clock.now() - began >= 0.2 then "at least what was slept" else "less than what was slept")
local sum = clock.now() + deadline.remaining()
print(if math.abs(sum - 30) < 0.5 then "what is left and what passed make the deadline" else `{sum}`)
return "done"
