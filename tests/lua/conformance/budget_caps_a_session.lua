--[==[
about: a session is ended when it has cost what the cell has left, and what is left is never less than nothing
budget: 1.0
sessions:
  - {text: cheap, cost: 0.25}
  - {text: dear, cost: 3, seconds: 30}
log: |
  true
  false limit cost limit of $0.7500 reached: $3.0000 spent
  remaining 0, spent 3.25
  budget
end: returns done
]==]
local budget = require("@std/budget")
local stop = require("@std/stop")
print(tostring(session("x").ok))
local s = session("x", { max_cost = 2 })
print(`{s.ok} {s.status} {s.reason}`)
print(`remaining {budget.remaining()}, spent {budget.spent()}`)
local _, err = pcall(session, "x")
print(stop.kind(err))
return "done"
