--[==[
about: random numbers are seeded, os has time and clock of the run, and nothing else of the system is there
log: |
  a number from 1 to 6
  numbers
  `io` does not exist in scripts: read with @std/workspace, write below `.refrain/` with workspace.write
  `os.getenv` does not exist in scripts: os has only time and clock; run commands with @std/exec
end: returns done
]==]
local dice = math.random(6)
print(if dice >= 1 and dice <= 6 then "a number from 1 to 6" else `{dice}`)
print(if type(os.time()) == "number" and os.clock() >= 0 then "numbers" else "none")
local function try(fn)
    local _, err = pcall(fn)
    print(err.message)
end
try(function() return io.read() end)
try(function() return os.getenv("HOME") end)
return "done"
