--[==[
about: an error of the script names file and line, across modules, with a trace of script frames only
modules:
  lib/tool.lua: |
    local tool = {}
    function tool.work(depth)
        if depth == 0 then
            error("boom")
        end
        tool.work(depth - 1)
    end
    return tool
end: |-
  fails lib/tool.lua:4: boom
    at lib/tool.lua:4 in function 'work'
    at lib/tool.lua:6 in function 'work'
    at runner.lua:21
]==]
local tool = require("./lib/tool")
pcall(tool.work, 0)
tool.work(1)
