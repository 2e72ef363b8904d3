--[==[
about: phases stop after a failure where they are told to; a task without phases has none to run
phases:
  - {name: one, model_role: implementation, task_prompt: null, input: none, timeout: null}
  - {name: two, model_role: implementation, task_prompt: null, input: output, timeout: null}
sessions:
  - {text: a}
  - {text: b, ends: {fail: broken}}
  - {text: c, ends: {fail: broken}}
log: |
  2 phases, the last failed
  1 phase, the last failed
  Do the task.|## Result of the phase before|a
end: returns done
]==]
local phases = require("@std/phases")
local first = phases.run()
print(`{#first} phases, the last {first[#first].status}`)
local second = phases.run({ stop_on_failure = true })
print(`{#second} phase, the last {second[#second].status}`)
print((string.gsub(phases.compose(task.phases[2], { first[1] }), "\n+", "|")))
return "done"
