--[==[
about: a refused budget that nobody catches ends the script with its place
budget: 0.5
sessions:
  - {text: one, cost: 0.5}
log: |
  one
end: "fails runner.lua:11: the cell's budget is used up ($0.5000 spent by this attempt)"
]==]
print(session("x").text)
session("y")
