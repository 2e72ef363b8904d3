--[==[
about: the visible checks judge the workspace as it is, and their report is meant for a prompt
files: {README: "x\n"}
checks: [test -f README, test -f done.txt]
sessions:
  - {text: tried}
  - {text: done, files: {done.txt: "yes\n"}}
log: |
  false, 1 of 2
  $ test -f done.txt|(exit code 1)
  test -f README true 0
  test -f done.txt false 1
  true, 2 of 2, output empty
  checks of the task 2
end: returns done
]==]
local checks = require("@std/checks")
session("x")
local report = checks.run()
print(`{report.ok}, {report.passed} of {report.total}`)
print((string.gsub((string.gsub(report.output, "\n+", "|")), "|$", "")))
for _, check in report.checks do
    print(`{check.command} {check.ok} {check.exit_code}`)
end
session("x")
report = checks.run({})
print(`{report.ok}, {report.passed} of {report.total}, output {if report.output == "" then "empty" else report.output}`)
print(`checks of the task {#task.checks}`)
return "done"
