--[==[
about: votes count, errors have kinds
log: |
  yes 2
  nil 0
  b 2 5
  nil
  misuse
  nil nil
end: returns done
]==]
local stop = require("@std/stop")
local vote = require("@std/vote")
local winner, count = vote.majority({ "no", "yes", "yes" })
print(`{winner} {count}`)
winner, count = vote.majority({}, function(x) return x end)
print(`{winner} {count}`)
local best, at, score = vote.best({ "a", "b", "c" }, function(item, i) return if item == "b" then 5 else nil end)
print(`{best} {at} {score}`)
print(tostring((vote.best({ "a" }, function() return 0 / 0 end))))
local _, err = pcall(vote.best, { "a" }, function() return "x" end)
print(stop.kind(err))
print(`{stop.kind("text")} {stop.kind(nil)}`)
return "done"
