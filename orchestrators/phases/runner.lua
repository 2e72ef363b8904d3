-- The multi-phase protocol: implement, review, revise, or whatever the task declares.
local phases = require("@std/phases")

local done = phases.run({ stop_on_failure = params.stop_on_failure })
local last = done[#done]
return { note = `{#done} of {#task.phases} phases held; the last one: {last.reason}` }
