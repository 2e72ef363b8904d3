--[==[
about: a session that outlives its own timeout is ended, is a value, and the script goes on
sessions:
  - {text: thinking, seconds: 30}
  - {text: fast}
log: |
  false timed_out session timeout of 0.5 s
  no exit code
  fast
end: returns done
]==]
local s = session("x", { timeout = 0.5 })
print(`{s.ok} {s.status} {string.match(s.reason, "^(.*) after")}`)
print(if s.exit_code == nil then "no exit code" else "exit " .. s.exit_code)
print(session("x", { timeout = 20 }).text)
return "done"
