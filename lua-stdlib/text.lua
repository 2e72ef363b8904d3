-- Strings.
local text = {}

function text.lines(...)
    host.check("text.lines", ...)
    local value = string.gsub((...), "\r\n", "\n")
    local lines = string.split(value, "\n")
    -- A final newline ends the last line; it does not begin another one.
    if lines[#lines] == "" then
        lines[#lines] = nil
    end
    return lines
end

local function trim(value)
    local first = string.find(value, "%S")
    if not first then
        return ""
    end
    local last = #value
    while string.find(string.sub(value, last, last), "%s") do
        last -= 1
    end
    return string.sub(value, first, last)
end

function text.trim(...)
    host.check("text.trim", ...)
    return trim((...))
end

function text.starts_with(...)
    host.check("text.starts_with", ...)
    local value, prefix = ...
    return string.sub(value, 1, #prefix) == prefix
end

function text.ends_with(...)
    host.check("text.ends_with", ...)
    local value, suffix = ...
    return #suffix <= #value and string.sub(value, #value - #suffix + 1) == suffix
end

function text.contains(...)
    host.check("text.contains", ...)
    local value, part = ...
    return string.find(value, part, 1, true) ~= nil
end

function text.indent(...)
    host.check("text.indent", ...)
    local value, prefix = ...
    prefix = prefix or "    "
    local lines = string.split(value, "\n")
    for index, line in lines do
        lines[index] = if line == "" then line else prefix .. line
    end
    return table.concat(lines, "\n")
end

-- The nearest position at or before `at` after which a character begins.
local function back(value, at)
    while at > 0 and at < #value do
        local byte = string.byte(value, at + 1)
        if byte < 0x80 or byte >= 0xC0 then
            break
        end
        at -= 1
    end
    return at
end

-- The nearest position at or after `at` where a character begins.
local function forward(value, at)
    while at <= #value do
        local byte = string.byte(value, at)
        if byte < 0x80 or byte >= 0xC0 then
            break
        end
        at += 1
    end
    return at
end

function text.truncate(...)
    host.check("text.truncate", ...)
    local value, max, keep = ...
    keep = keep or "both"
    if #value <= max then
        return value
    end
    local notice = `\n[… {#value - max} bytes or more cut …]\n`
    local room = max - #notice
    if room <= 0 then
        return string.sub(value, 1, back(value, max))
    end
    if keep == "head" then
        return string.sub(value, 1, back(value, room)) .. notice
    elseif keep == "tail" then
        return notice .. string.sub(value, forward(value, #value - room + 1))
    end
    local head = room // 2
    local tail = room - head
    return string.sub(value, 1, back(value, head)) .. notice .. string.sub(value, forward(value, #value - tail + 1))
end

return text
