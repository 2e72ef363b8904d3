--[==[
about: rounds end by their number, by the time and by the money that is left
deadline: 60
budget: 1.0
sessions:
  - {text: s, cost: 0.3}
log: |
  1 2 3
  none for want of time
  1 2 3
  spent 0.9
end: returns done
]==]
local budget = require("@std/budget")
local loop = require("@std/loop")
local function rounds(options, work)
    local seen = {}
    for round in loop.rounds(options) do
        table.insert(seen, round)
        if work then
            work(round)
        end
    end
    return table.concat(seen, " ")
end
print(rounds({ max = 3 }))
print(if rounds({ max = 3, reserve = 1000 }) == "" then "none for want of time" else "some")
print(rounds({ max = 9, min_budget = 0.2 }, function() session("x") end))
print(`spent {budget.spent()}`)
return "done"
