local checks = require("@std/checks")
local workspace = require("@std/workspace")

local result = session(task.prompt)
log.info("the agent said " .. tostring(result.text))
log.warn("its file holds " .. workspace.read("leak.txt"))
log.info("the checks say " .. checks.run().output)
session(workspace.read("leak.txt"), {
    label = "again with " .. workspace.read("leak.txt"),
    phase = "after " .. workspace.read("leak.txt"),
})
return { note = "heard " .. workspace.read("leak.txt") }
