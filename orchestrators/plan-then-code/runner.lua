-- First a plan and no changes, then the changes.
local prompt = require("@std/prompt")
local workspace = require("@std/workspace")

local plan = session(prompt.join({
    "Read the code and write a plan for the task below. Change no file. Answer with the plan: files, changes, how to check them.",
    prompt.section("The task", task.prompt),
}), { phase = "plan", label = "plan" })

if not plan.ok or not plan.text then
    -- Without a plan the task itself is still worth a session.
    log.warn(`no plan: {plan.reason}`)
    local only = session(task.prompt, { phase = "code", label = "code without a plan" })
    return { note = `no plan; {only.reason}`, planned = false }
end

-- Kept where the agent can look it up, and left out of the result.
workspace.write("PLAN.md", plan.text)
local code = session(prompt.join({
    "Carry out the plan for the task below. Deviate from it where the code shows that it is wrong.",
    prompt.section("The task", task.prompt),
    prompt.section("The plan", plan.text),
}), { phase = "code", label = "code", continue = if params.continue_session and plan.resumable then plan else nil })
return { note = code.reason, planned = true }
