-- The same task again and again, each time in a fresh session; files carry the progress over.
local loop = require("@std/loop")
local prompt = require("@std/prompt")
local workspace = require("@std/workspace")

local instructions = prompt.render([[
You work on this task in several sessions, and remember nothing between them.
Read {{progress}} first, if it exists. Do the next piece of work. Before you end, write into {{progress}} what is done and what is left.
When, and only when, the whole task is done and checked, create the file {{marker}}.]], {
    progress = params.progress_file,
    marker = params.marker_file,
})
local text = prompt.join({ instructions, prompt.section("The task", task.prompt) })

local failures, sessions = 0, 0
for round in loop.rounds({ max = params.max_sessions, reserve = params.reserve_seconds }) do
    local result = session(text, { label = `session {round}` })
    sessions = round
    if workspace.exists(params.marker_file) then
        return { note = `done after {round} session(s)`, sessions = round, done = true }
    end
    failures = if result.ok then 0 else failures + 1
    if failures >= params.max_failures then
        return { note = `{failures} sessions in a row failed; the last one: {result.reason}`, sessions = round, done = false }
    end
end
return { note = `not done after {sessions} session(s)`, sessions = sessions, done = false }
