-- Implement, review, revise, until the review approves.
local loop = require("@std/loop")
local prompt = require("@std/prompt")
local text = require("@std/text")
local workspace = require("@std/workspace")

local function approved(review)
    for _, line in text.lines(review.text or "") do
        if text.trim(line) == params.approval then
            return true
        end
    end
    return false
end

local work = session(task.prompt, { role = "implementation", phase = "implement" })
local reviews = 0

for round in loop.rounds({ max = params.max_reviews, reserve = params.reserve_seconds }) do
    local review = session(prompt.join({
        `Review the changes below. Change no file. If they need no more work, answer with {params.approval} on a line of its own; else list what must change.`,
        prompt.section("The task", task.prompt),
        prompt.section("The changes", prompt.fence(text.truncate(workspace.diff(), 200000), "diff")),
    }), { role = "review", phase = "review", label = `review {round}` })
    reviews = round
    if approved(review) then
        return { note = `approved after {round} review(s)`, reviews = round, approved = true }
    end
    -- A review that failed says nothing about the work.
    if review.ok and review.text then
        work = session(prompt.join({
            "A reviewer asks for changes. Make those that are right.",
            prompt.section("The task", task.prompt),
            prompt.section("The review", review.text),
        }), { role = "implementation", phase = "revise", label = `revision {round}`, continue = if work.resumable then work else nil })
    end
end

return { note = `not approved after {reviews} review(s)`, reviews = reviews, approved = false }
