--[==[
about: continue is a statement of the language and an option of session, and both work in one loop
sessions:
  - {text: one}
  - {text: two, ends: {fail: broken}}
  - {text: three}
log: |
  1 one
  3 three
end: returns three
]==]
local last
for round = 1, 3 do
    local s = session("x", { continue = last, label = `round {round}` })
    last = s
    if not s.ok then
        continue
    end
    print(`{s.index} {s.text}`)
end
return last.text
