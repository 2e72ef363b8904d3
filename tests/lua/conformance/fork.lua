--[==[
about: a fork is a copy, changes apart from what it was made of, and replaces it when it is merged
files: {a.txt: "one\n", gone.txt: "x\n"}
sessions:
  - {text: forked, files: {a.txt: "two\n", gone.txt: null, new.txt: "n\n"}}
log: |
  0 1 2
  one|two|one
  a.txt new.txt
  one|one
  two nil
  own notes: main's nil, fork's f
  misuse workspace.read: workspace 1 was thrown away; use it before `fork.discard`, or take another one: `fork.create()`, `workspace.main`
  misuse session: workspace 1 was thrown away; use it before `fork.discard`, or take another one: `fork.create()`, `workspace.main`
  misuse checks.run: workspace 1 was thrown away; use it before `fork.discard`, or take another one: `fork.create()`, `workspace.main`
  misuse fork.discard: workspace 1 was thrown away; use it before `fork.discard`, or take another one: `fork.create()`, `workspace.main`
  the next session is number 2
  misuse fork.merge: a workspace cannot replace itself
  misuse fork.discard: the main workspace cannot be thrown away
end: returns done
]==]
local checks = require("@std/checks")
local fork = require("@std/fork")
local text = require("@std/text")
local workspace = require("@std/workspace")
local one, two = fork.create(), fork.create()
print(`{workspace.main.id} {one.id} {two.id}`)
session("x", { workspace = one })
print(`{text.trim(workspace.read("a.txt"))}|{text.trim(one:read("a.txt"))}|{text.trim(two:read("a.txt"))}`)
print(table.concat(one:list(), " "))
local three = fork.create(two)
fork.discard(two)
print(`{text.trim(workspace.read("a.txt"))}|{text.trim(three:read("a.txt"))}`)
one:write("notes", "f")
fork.merge(one)
print(`{text.trim(workspace.read("a.txt"))} {workspace.read("gone.txt")}`)
print(`own notes: main's {workspace.read(".refrain/notes")}, fork's {one:read(".refrain/notes")}`)
fork.discard(one)
local function try(fn, ...)
    local ok, err = pcall(fn, ...)
    print(if ok then "no error" else `{err.kind} {err.message}`)
end
try(function() return one:read("a.txt") end)
try(session, "x", { workspace = one })
try(checks.run, { workspace = one })
try(fork.discard, one)
print(`the next session is number {session("x").index}`)
try(fork.merge, workspace.main)
try(fork.discard, workspace.main)
return "done"
