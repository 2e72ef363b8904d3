--[==[
about: role, model, harness, phase, label, timeout and workspace are taken as they are given
models: [[small, implementation], [wide, implementation], [critic, review]]
harnesses: [scripted, other]
sessions:
  - {text: ok}
log: |
  small scripted nil nil
  small scripted nil nil
  critic scripted nil nil
  wide scripted nil nil
  wide other plan first
end: returns 5
]==]
local function show(s)
    print(`{s.model} {s.harness} {s.phase} {s.label}`)
    return s.index
end
show(session("x"))
show(session("x", { role = "implementation" }))
show(session("x", { role = "review", timeout = 30 }))
show(session("x", { model = "wide" }))
local last = show(session("x", { model = "wide", harness = "other", phase = "plan", label = "first", max_cost = 2 }))
return tostring(last)
