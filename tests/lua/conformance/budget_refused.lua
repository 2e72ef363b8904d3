--[==[
about: a refused budget is raised, may be caught, and the script wraps up
budget: 1.0
sessions:
  - {text: one, cost: 0.6}
  - {text: two, cost: 0.4}
log: |
  remaining 1, spent 0
  remaining 0.4, spent 0.6
  remaining 0, spent 1
  refused budget: the cell's budget is used up ($1.0000 spent by this attempt)
  kind budget, and still budget
end: returns wrapped up
]==]
local budget = require("@std/budget")
local stop = require("@std/stop")
local function show()
    print(`remaining {budget.remaining()}, spent {budget.spent()}`)
end
show()
session("x")
show()
session("x")
show()
local ok, err = pcall(session, "x")
print(`{err.kind} {err.limit}: {err.message}`)
local _, again = pcall(session, "x")
print(`kind {stop.kind(err)}, and still {stop.kind(again)}`)
return if ok then "a session was held" else "wrapped up"
