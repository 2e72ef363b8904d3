--[==[
about: an earlier session can be continued, unless no conversation ever began
sessions:
  - {text: one}
  - {text: two}
log: |
  one
  two, number 2
end: returns done
]==]
local first = session("x")
print(first.text)
local second = session("go on", { continue = first })
print(`{second.text}, number {second.index}`)
return "done"
