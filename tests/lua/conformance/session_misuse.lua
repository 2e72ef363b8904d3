--[==[
about: misuse names the argument, what was expected and what came, and holds no session
sessions:
  - {text: ok}
log: |
  misuse session: argument 1 (prompt) must be a string of valid UTF-8 without NUL, got nil
  misuse session: argument 1 (prompt) must be a string of valid UTF-8 without NUL, got number
  misuse session: argument 1 (prompt) must be a string of valid UTF-8 without NUL, got a NUL at byte 2
  misuse session: unknown option `lable`; did you mean `label`?
  misuse session: option `timeout` must be a finite number of seconds, 0 or more, got -1
  misuse session: option `max_cost` must be a finite number of dollars, 0 or more, got NaN
  misuse session: option `role` must be one of implementation, review, got `reviewer`; did you mean `review`?
  misuse session: option `continue` must be the result of an earlier session, got table
  misuse session: option `workspace` must be a workspace: `workspace.main` or what @std/fork returned, got number
  misuse session: option `model`: the run declares no model `smal`; did you mean `small`?
  misuse session: option `harness`: the run declares no harness `claude`; there is scripted
  misuse session: takes 2 arguments, got 3
  number 1
end: returns done
]==]
local stop = require("@std/stop")
local function try(...)
    local ok, err = pcall(session, ...)
    print(`{if ok then "no error" else stop.kind(err)} {err.message}`)
end
try(nil)
try(1)
try("a\0b")
try("x", { lable = "a" })
try("x", { timeout = -1 })
try("x", { max_cost = 0 / 0 })
try("x", { role = "reviewer" })
try("x", { continue = { index = 1 } })
try("x", { workspace = 3 })
try("x", { model = "smal" })
try("x", { harness = "claude" })
try("x", {}, 1)
print(`number {session("x").index}`)
return "done"
