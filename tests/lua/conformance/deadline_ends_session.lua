--[==[
about: the deadline ends the session that is under way, and the script with it
deadline: 1.5
sessions:
  - {text: slow, seconds: 60}
log: |
  before
end: stops
]==]
print("before")
local ok = pcall(session, "x", { timeout = 50 })
print(`after {ok}`)
return "never"
