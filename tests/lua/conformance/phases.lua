--[==[
about: phases hold one session each, with their role, and compose their input
models: [[small, implementation], [critic, review]]
files: {a.txt: "one\n"}
phases:
  - {name: write, model_role: implementation, task_prompt: Write it., input: none, timeout: null}
  - {name: look, model_role: review, task_prompt: null, input: diff, timeout: null}
  - {name: mend, model_role: implementation, task_prompt: Mend it., input: review_feedback, timeout: null}
sessions:
  - {text: written, files: {a.txt: "two\n"}}
  - {text: looks wrong}
  - {text: mended}
log: |
  multi_phase: write implementation none, look review diff, mend implementation review_feedback
  write write small written
  look look critic looks wrong
  mend mend small mended
  Mend it.|## Review feedback|looks wrong
  Do the task.|## Changes so far|+two
end: returns done
]==]
local phases = require("@std/phases")
local text = require("@std/text")
local names = {}
for _, phase in task.phases do
    table.insert(names, `{phase.name} {phase.role} {phase.input}`)
end
print(`{task.track}: {table.concat(names, ", ")}`)
local done = phases.run({ stop_on_failure = true, timeout = 30 })
for _, s in done do
    print(`{s.phase} {s.label} {s.model} {s.text}`)
end
local function flat(prompt)
    local kept = {}
    for _, line in text.lines(prompt) do
        if text.trim(line) ~= "" and not text.starts_with(line, "```") then
            table.insert(kept, text.trim(line))
        end
    end
    return kept
end
print(table.concat(flat(phases.compose(task.phases[3], { done[1], done[2] })), "|"))
local lines = flat(phases.compose(task.phases[2], { done[1] }))
print(`{lines[1]}|{lines[2]}|{lines[#lines]}`)
return "done"
