--[==[
about: what nobody measured is nil, never 0
sessions:
  - {text: hi}
log: |
  cost nil, input nil, output nil, reasoning nil
  spent 0, remaining nil
end: returns hi
]==]
local budget = require("@std/budget")
local s = session("x")
print(`cost {s.cost}, input {s.usage.input}, output {s.usage.output}, reasoning {s.usage.reasoning}`)
print(`spent {budget.spent()}, remaining {budget.remaining()}`)
return s.text
