--[==[
about: paths that lead out, or that name what they cannot, are misuse, and nothing of the attempt's ends
files: {a.txt: "one\n", src/b.txt: "two\n"}
log: |
  misuse workspace.read: `../x` holds `..`; paths stay below the workspace
  misuse workspace.exists: `/etc/passwd` is absolute; paths are relative to the workspace
  misuse workspace.read: `src` is not a regular file
  misuse workspace.read: `` is not a regular file
  nil
  false
  misuse workspace.list: `a/../b` holds `..`; paths stay below the workspace
  misuse workspace.glob: `[` is not a pattern such as `src/**/*.rs`
  misuse workspace.write: `` names no file
  misuse workspace.write: `../x` holds `..`; paths stay below the workspace
  misuse workspace.write: `notes/a` goes through something that is no folder
  misuse workspace.write: `deep` is a folder
  misuse workspace.read: argument 1 (path) must be a string of valid UTF-8 without NUL, got nil
  misuse Workspace.read: call it with a colon, as in ws:read(…)
  a name of 300 bytes is misuse
  a name of 300 bytes is misuse
  a path of 5000 bytes is misuse
end: returns done
]==]
local workspace = require("@std/workspace")
local function try(fn, ...)
    local ok, err = pcall(fn, ...)
    print(if ok then tostring(err) else `{err.kind} {err.message}`)
end
try(workspace.read, "../x")
try(workspace.exists, "/etc/passwd")
try(workspace.read, "src")
try(workspace.read, "")
try(workspace.read, "a.txt/x")
try(workspace.exists, "a.txt/x")
try(workspace.list, "a/../b")
try(workspace.glob, "[")
try(workspace.write, "", "x")
try(workspace.write, "../x", "x")
workspace.write("notes", "x")
try(workspace.write, "notes/a", "x")
workspace.write("deep/a", "x")
try(workspace.write, "deep", "x")
try(workspace.read, nil)
try(workspace.main.read, "a.txt")
local function long(fn, path, ...)
    local ok, err = pcall(fn, path, ...)
    local parts = if #path < 1000 then "a name" else "a path"
    print(`{parts} of {#path} bytes is {if ok then "no error" else err.kind}`)
end
long(workspace.read, string.rep("a", 300))
long(workspace.write, string.rep("a", 300), "x")
long(workspace.exists, string.rep("a/", 2500))
return "done"
