-- Composing prompts.
local prompt = {}

local function lookup(values, path)
    local value = values
    for _, part in string.split(path, ".") do
        if type(value) ~= "table" then
            return nil
        end
        value = value[part]
    end
    return value
end

function prompt.render(...)
    host.check("prompt.render", ...)
    local template, values = ...
    local parts, at = {}, 1
    while true do
        local first, last = string.find(template, "{{", at, true)
        if not first then
            break
        end
        local close_first, close_last = string.find(template, "}}", last + 1, true)
        if not close_first then
            host.misuse("prompt.render: `{{` without `}}` in the template")
        end
        local path = string.match(string.sub(template, last + 1, close_first - 1), "^%s*([%w_%.]+)%s*$")
        if not path then
            host.misuse("prompt.render: between `{{` and `}}` belongs a name such as `file` or `report.output`")
        end
        local value = lookup(values, path)
        if value == nil then
            host.misuse(`prompt.render: there is no value for \{\{{path}\}\}`)
        end
        table.insert(parts, string.sub(template, at, first - 1))
        table.insert(parts, tostring(value))
        at = close_last + 1
    end
    table.insert(parts, string.sub(template, at))
    return table.concat(parts)
end

function prompt.fence(...)
    host.check("prompt.fence", ...)
    local body, language = ...
    local longest = 2
    for run in string.gmatch(body, "`+") do
        longest = math.max(longest, #run)
    end
    local fence = string.rep("`", longest + 1)
    local ending = if string.sub(body, -1) == "\n" then "" else "\n"
    return `{fence}{language or ""}\n{body}{ending}{fence}`
end

function prompt.section(...)
    host.check("prompt.section", ...)
    local title, body = ...
    return `## {title}\n\n{body}`
end

function prompt.join(...)
    host.check("prompt.join", ...)
    local parts = {}
    for index, part in (...) do
        if part and type(part) ~= "string" then
            host.misuse(`prompt.join: argument 1 (parts) must hold strings, got a {type(part)} at {index}`)
        end
        if part and part ~= "" then
            table.insert(parts, part)
        end
    end
    return table.concat(parts, "\n\n")
end

return prompt
