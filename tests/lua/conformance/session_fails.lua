--[==[
about: an agent that fails, declines or reaches a limit of its harness is a value
sessions:
  - {text: tried, ends: {fail: no compiler}}
  - {text: no, ends: {refuse: I will not}}
  - {ends: {limit: turns}}
  - {ends: not_started}
  - {text: fine}
log: |
  false failed no compiler (exit 1)
  false failed I will not (exit 0)
  false limit a limit was reached (exit 1)
  false not_started it reported success without a single token (exit 0)
  true completed completed (exit 0)
end: returns 5
]==]
local last
for _ = 1, 5 do
    last = session("x")
    print(`{last.ok} {last.status} {last.reason} (exit {last.exit_code})`)
end
return tostring(last.index)
