--[==[
about: what a script writes lies below .refrain, can be read again, and is no part of the diff
files: {a.txt: "one\n"}
log: |
  hello
  again
  6 bytes
  true
  .refrain a.txt
  .refrain/deep/notes.md .refrain/notes.md a.txt
  no diff
end: returns done
]==]
local workspace = require("@std/workspace")
workspace.write("notes.md", "hello")
print(workspace.read(".refrain/notes.md"))
workspace.write("./notes.md", "again")
print(workspace.read(".refrain/notes.md"))
workspace.main:write("deep/notes.md", "\0\255bin\n")
print(`{#workspace.read(".refrain/deep/notes.md")} bytes`)
print(tostring(workspace.exists(".refrain/deep")))
print(table.concat(workspace.list(), " "))
print(table.concat(workspace.glob("**/*"), " "))
print(if workspace.diff() == "" then "no diff" else workspace.diff())
return "done"
