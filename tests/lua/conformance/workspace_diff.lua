--[==[
about: the diff names what sessions changed, added and removed
files: {a.txt: "one\n", b.txt: "two\n", c.txt: "three\n"}
sessions:
  - {text: done, files: {a.txt: "1\n", b.txt: null, new.txt: "new\n"}}
log: |
  --- a/a.txt|+++ b/a.txt|-one|+1
  --- a/b.txt|+++ /dev/null|-two
  --- /dev/null|+++ b/new.txt|+new
end: returns done
]==]
local text = require("@std/text")
local workspace = require("@std/workspace")
if workspace.diff() ~= "" then
    return "a diff before anything happened"
end
session("x")
-- Headers and the lines around a change are the host's business: what changed is the same.
local files, lines = {}, {}
for _, line in text.lines(workspace.main:diff()) do
    if text.starts_with(line, "--- ") then
        lines = {}
        table.insert(files, lines)
    end
    if #files > 0 and (text.starts_with(line, "-") or text.starts_with(line, "+")) then
        table.insert(lines, line)
    end
end
for _, changed in files do
    print(table.concat(changed, "|"))
end
return "done"
