-- The protocol of multi-phase tasks: one session a phase, each given what its `input` says.
host.use("workspace")

local prompt = require("@std/prompt")

local phases = {}

local function latest_review(done)
    for index = #done, 1, -1 do
        local phase = task.phases[index]
        if phase and phase.role == "review" then
            return done[index].text
        end
    end
    return nil
end

local function input_of(phase, done)
    local kind = phase.input
    if kind == "diff" then
        local diff = host.diff(0)
        if diff == "" then
            return prompt.section("Changes so far", "There are none.")
        end
        return prompt.section("Changes so far", prompt.fence(diff, "diff"))
    elseif kind == "output" then
        local last = done[#done]
        return prompt.section("Result of the phase before", last and last.text or "There is none.")
    elseif kind == "review_feedback" then
        return prompt.section("Review feedback", latest_review(done) or "There is none.")
    end
    return nil
end

local function compose(phase, done)
    return prompt.join({ phase.prompt or task.prompt, input_of(phase, done) or false })
end

function phases.compose(...)
    host.check("phases.compose", ...)
    local phase, done = ...
    return compose(phase, done)
end

function phases.run(...)
    host.check("phases.run", ...)
    local options = ... or {}
    if #task.phases == 0 then
        host.misuse("phases.run: the task has no phases; it is for tasks of the track multi_phase")
    end
    local done = {}
    for _, phase in task.phases do
        local result = session(compose(phase, done), {
            role = phase.role,
            phase = phase.name,
            label = phase.name,
            timeout = phase.timeout or options.timeout,
        })
        table.insert(done, result)
        if options.stop_on_failure and not result.ok then
            break
        end
    end
    return done
end

return phases
