--[==[
about: a session's result has what the agent told, and nothing that nobody measured
sessions:
  - text: done
    files: {a.txt: "1\n"}
    usage: {input: 100, output: 20, cache_read: 5, cache_write: 0, reasoning: 3}
    cost: 0.25
log: |
  true completed completed
  exit 0, text done, cost 0.25, turns 1, tool calls 1
  100 20 5 0 3
  index 1, model small, harness scripted, phase nil, label nil
  a number of seconds
  resumable
end: returns seen
]==]
local s = session(task.prompt)
print(`{s.ok} {s.status} {s.reason}`)
print(`exit {s.exit_code}, text {s.text}, cost {s.cost}, turns {s.turns}, tool calls {s.tool_calls}`)
local u = s.usage
print(`{u.input} {u.output} {u.cache_read} {u.cache_write} {u.reasoning}`)
print(`index {s.index}, model {s.model}, harness {s.harness}, phase {s.phase}, label {s.label}`)
print(if type(s.duration) == "number" and s.duration >= 0 then "a number of seconds" else "none")
print(if s.resumable then "resumable" else "not resumable")
return { note = "seen" }
