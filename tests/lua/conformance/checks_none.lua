--[==[
about: a task without checks passes
log: |
  true, 0 of 0, 0 checks, output empty
end: returns done
]==]
local checks = require("@std/checks")
local report = checks.run()
print(`{report.ok}, {report.passed} of {report.total}, {#report.checks} checks, output {if report.output == "" then "empty" else report.output}`)
return "done"
