-- Reads aider's text. Its exit code is 0 whatever happened, so words are all that tells.
--
-- Token lines are left alone: they are rounded, estimated where the answer is streamed, count cache writes twice where it
-- is not, and leave requests out. Unknown is better than wrong.

local ENDS = {
  { "litellm.AuthenticationError", "auth_failed" },
  { "litellm.PermissionDeniedError", "auth_failed" },
  { "litellm.RateLimitError", "rate_limited" },
  { "litellm.InternalServerError", "overloaded" },
  { "litellm.ServiceUnavailableError", "overloaded" },
  { "litellm.ContextWindowExceededError", "token_limit" },
  { "has hit a token limit!", "token_limit" },
  { "litellm.NotFoundError", "unknown_model" },
  { "litellm.Timeout", "unreachable" },
  { "litellm.APIConnectionError", "unreachable" },
  { "litellm.APIError", "unreachable" },
  { "litellm.BadRequestError", "failed" },
  { "Only 3 reflections allowed", "failed" },
  -- Of an answer without words; some refusals are.
  { "Empty response received from LLM", "failed" },
}

local started = false -- the banner is over
local fault, message -- the last error that no answer followed
local words = {} -- the answer that is being printed
local text -- the last whole answer
local edits = 0

-- A line that the model wrote, as far as can be told.
local function is_notice(line)
  return line:find("^Added .+ to the chat") or line:find("^Applied edit to ") or line:find("^Retrying in ")
    or line:find("^The API provider") or line:find("^Commit ") or line:find("^Tokens: ")
end

local function finish_answer()
  local whole = table.concat(words, "\n"):match("^%s*(.-)%s*$")
  words = {}
  if whole ~= "" then
    text = whole
    return { kind = "message", text = whole }
  end
  return nil
end

local function line(stream, line)
  if stream == "stderr" then return nil end
  if line:find("^Repo%-map: ") then
    started = true
    words = {}
    return nil
  end
  if not started then return nil end
  for _, known in ENDS do
    if line:find(known[1], 1, true) then
      fault, message = known[2], line
      words = {}
      return { kind = "error", text = line }
    end
  end
  local edited = line:match("^Applied edit to (.+)$")
  if edited then
    edits += 1
    return { kind = "file_edit", path = edited }
  end
  if line:find("^Retrying in ") then
    -- The model is asked again: what was wrong may be over.
    local seconds = tonumber(line:match("^Retrying in ([%d.]+) seconds"))
    local event = fault == "rate_limited" and { kind = "throttled", seconds = seconds } or nil
    fault, message, words = nil, nil, {}
    return event
  end
  if line:find("^Tokens: ") then
    -- An answer is over. One of nothing comes before the notice of a limit.
    return finish_answer()
  end
  if not is_notice(line) and #words < 10000 then
    words[#words + 1] = line
  end
  return nil
end

local function finish(exit_code)
  if #words > 0 and not text and not fault then finish_answer() end
  local outcome
  if fault then
    outcome = fault
  elseif exit_code == 0 and text then
    outcome = "completed"
  elseif exit_code ~= nil and exit_code ~= 0 and started then
    outcome, message = "failed", "exit code " .. exit_code
  end
  return { started = started, outcome = outcome, message = message, text = text }
end

return { line = line, finish = finish }
