--[==[
about: a session that costs more than it may is ended at a limit
sessions:
  - {text: thinking, cost: 3, seconds: 30}
  - {text: cheap, cost: 0.5}
log: |
  false limit cost limit of $1.0000 reached: $3.0000 spent
  no exit code
  true completed completed
  spent 3.5
end: returns done
]==]
local budget = require("@std/budget")
local s = session("x", { max_cost = 1 })
print(`{s.ok} {s.status} {s.reason}`)
print(if s.exit_code == nil then "no exit code" else "exit " .. s.exit_code)
s = session("x", { max_cost = 1 })
print(`{s.ok} {s.status} {s.reason}`)
print(`spent {budget.spent()}`)
return "done"
