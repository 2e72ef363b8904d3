local loop = require("@std/loop")

local options = {}
for _, name in { "max", "reserve", "min_budget" } do
    options[name] = rawget(params, name)
end
local rounds = 0
for round in loop.rounds(options) do
    session("round " .. round)
    rounds = round
end
return { rounds = rounds }
