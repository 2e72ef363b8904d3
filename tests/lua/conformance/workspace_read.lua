--[==[
about: files are read, found and listed below the workspace; what is not there is nil
files: {a.txt: "one\n", src/b.txt: "two\n", src/deep/c.lua: "three\n"}
log: |
  one
  nil
  true true true false
  a.txt src
  b.txt deep
  b.txt deep
  nil
  nil
  src/b.txt
  a.txt src/b.txt
  src/deep/c.lua
  a.txt src/b.txt src/deep/c.lua
  two
end: returns done
]==]
local text = require("@std/text")
local workspace = require("@std/workspace")
local function all(names)
    return names and table.concat(names, " ")
end
print(text.trim(workspace.read("a.txt")))
print(workspace.read("none"))
print(`{workspace.exists("a.txt")} {workspace.exists("src")} {workspace.exists("")} {workspace.exists("src/none")}`)
print(all(workspace.list()))
print(all(workspace.list("src")))
print(all(workspace.main:list("./src/")))
print(all(workspace.list("none")))
print(all(workspace.list("a.txt")))
print(all(workspace.glob("src/*.txt")))
print(all(workspace.glob("**/*.txt")))
print(all(workspace.glob("src/**/*.{lua,py}")))
print(all(workspace.glob("**/*")))
print(text.trim(workspace.main:read("./src/b.txt")))
return "done"
