--[==[
about: a command that fails, is not there, or takes too long is a value
exec:
  echo a b: {stdout: "a b\n"}
  sh -c echo out; echo err >&2; exit 3: {stdout: "out\n", stderr: "err\n", exit_code: 3}
  sleep 30: {timed_out: true}
  no-such-program-here: {missing: true}
log: |
  true 0 false [a b] []
  false 3 false [out] [err]
  false nil true [] []
  false nil false []
  misuse exec.run: argument 1 (argv) must hold strings, got a number at 2
  misuse exec.run: argument 1 (argv) must name a program
  misuse exec.run: argument 1 (argv) must be a list, got string
  misuse exec.run: an argument holds a NUL
  misuse exec.shell: unknown option `tiemout`; did you mean `timeout`?
end: returns done
]==]
local exec = require("@std/exec")
local text = require("@std/text")
local function show(r, errors)
    local line = `{r.ok} {r.exit_code} {r.timed_out} [{text.trim(r.stdout)}]`
    print(if errors then line .. ` [{text.trim(r.stderr)}]` else line)
end
show(exec.run({ "echo", "a b" }), true)
show(exec.shell("echo out; echo err >&2; exit 3", { timeout = 20 }), true)
show(exec.run({ "sleep", "30" }, { timeout = 0.3 }), true)
-- What the system says of a program that is not there is its own business.
show(exec.run({ "no-such-program-here" }), false)
local function try(fn, ...)
    local _, err = pcall(fn, ...)
    print(`{err.kind} {err.message}`)
end
try(exec.run, { "echo", 1 })
try(exec.run, {})
try(exec.run, "echo")
try(exec.run, { "echo", "a\0b" })
try(exec.shell, "true", { tiemout = 1 })
return "done"
