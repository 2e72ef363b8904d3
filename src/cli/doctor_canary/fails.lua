local workspace = require("@std/workspace")

session(task.prompt)
error("cannot go on after " .. workspace.read("leak.txt"))
