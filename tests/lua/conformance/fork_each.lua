--[==[
about: best of n by parallel forks, judged by the checks, the winner merged
files: {a.txt: "start\n"}
checks: [test -f one, test -f two]
sessions:
  - {text: first, files: {one: "1\n"}}
  - {text: second, files: {one: "1\n", two: "2\n"}}
  - {text: third}
log: |
  3 reports, 3 forks
  1 2 0 of 2
  the best is 2, with 2
  main has one and two
  -|one two|-
end: returns first second third
]==]
local checks = require("@std/checks")
local fork = require("@std/fork")
local vote = require("@std/vote")
local workspace = require("@std/workspace")
local texts = {}
local reports, forks = fork.each(3, function(ws, i)
    texts[i] = session("x", { workspace = ws }).text
    return checks.run({ workspace = ws })
end)
print(`{#reports} reports, {#forks} forks`)
print(`{reports[1].passed} {reports[2].passed} {reports[3].passed} of {reports[1].total}`)
local report, at, score = vote.best(reports, function(r) return r.passed end)
print(`the best is {at}, with {score}`)
fork.merge(forks[at])
print(`main has {if workspace.exists("one") then "one" else "-"} and {if workspace.exists("two") then "two" else "-"}`)
for i, ws in forks do
    if i ~= at then
        fork.discard(ws)
    end
end
print(`-|{table.concat(workspace.glob("{one,two}"), " ")}|{if report.ok then "-" else "x"}`)
return table.concat(texts, " ")
