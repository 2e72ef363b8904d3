--[==[
about: a role that no model of the run has is misuse, and no session
sessions:
  - {text: ok}
log: |
  misuse session: the run declares no model with `role: review`; declare one, or leave the option `role` out
  the first session is number 1
end: returns done
]==]
local ok, err = pcall(session, "x", { role = "review" })
print(`{err.kind} {err.message}`)
print(`the first session is number {session("x").index}`)
return "done"
