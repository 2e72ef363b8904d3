-- Strategy tests: assertions, and runs of the orchestrator in a mock world. Only test files can require this module.
local test = {}

-- A value as it would be written, with sorted keys, cut off where it is deep or long.
local function show(value, depth)
    depth = depth or 0
    if type(value) == "string" then
        return string.format("%q", value)
    elseif type(value) ~= "table" then
        return tostring(value)
    elseif depth >= 4 then
        return "{…}"
    end
    local parts, keys = {}, {}
    for key in value do
        if not (type(key) == "number" and key >= 1 and key <= #value) then
            table.insert(keys, key)
        end
    end
    table.sort(keys, function(a, b)
        return tostring(a) < tostring(b)
    end)
    for _, item in ipairs(value) do
        table.insert(parts, show(item, depth + 1))
    end
    for _, key in keys do
        local name = if type(key) == "string" and string.find(key, "^[%a_][%w_]*$") then key else `[{show(key, depth + 1)}]`
        table.insert(parts, `{name} = {show(value[key], depth + 1)}`)
    end
    return "{ " .. table.concat(parts, ", ") .. " }"
end

-- The first place where two values differ, as a path; nil where they are equal.
local function difference(got, wanted, path)
    if got == wanted or (got ~= got and wanted ~= wanted) then
        return nil
    end
    if type(got) ~= "table" or type(wanted) ~= "table" then
        return path, got, wanted
    end
    for key, item in wanted do
        local where, a, b = difference(rawget(got, key), item, `{path}.{tostring(key)}`)
        if where then
            return where, a, b
        end
    end
    for key, item in got do
        if rawget(wanted, key) == nil then
            return `{path}.{tostring(key)}`, item, nil
        end
    end
    return nil
end

local function with_note(message, note)
    return if note then `{note}: {message}` else message
end

local function texts_differ(got, wanted)
    local a, b = string.split(got, "\n"), string.split(wanted, "\n")
    local lines = {}
    for index = 1, math.max(#a, #b) do
        if a[index] ~= b[index] then
            if #lines >= 20 then
                table.insert(lines, "  …")
                break
            end
            if b[index] then
                table.insert(lines, `  {index} - {b[index]}`)
            end
            if a[index] then
                table.insert(lines, `  {index} + {a[index]}`)
            end
        end
    end
    return "texts differ (- wanted, + got)\n" .. table.concat(lines, "\n")
end

function test.equal(got, wanted, note)
    local path, a, b = difference(got, wanted, "value")
    if not path then
        return
    end
    if type(a) == "string" and type(b) == "string" and (string.find(a, "\n", 1, true) or string.find(b, "\n", 1, true)) then
        host.test_fail(with_note(`{path}: {texts_differ(a, b)}`, note))
    end
    local message = `{path} is {show(a)}, wanted {show(b)}`
    if path ~= "value" then
        message ..= `\n  got    {show(got)}\n  wanted {show(wanted)}`
    end
    host.test_fail(with_note(message, note))
end

function test.ok(value, note)
    if not value then
        -- A note says it better: usually it is the error of a run.
        host.test_fail(note or `got {show(value)}, wanted something true`)
    end
    return value
end

function test.contains(text, part, note)
    if type(text) ~= "string" or not string.find(text, part, 1, true) then
        host.test_fail(with_note(`{show(text)} does not contain {show(part)}`, note))
    end
end

function test.raises(fn, part, note)
    local ok, err = pcall(fn)
    if ok then
        host.test_fail(with_note("nothing was raised", note))
    end
    local text = if type(err) == "table" and rawget(err, "message") then err.message else tostring(err)
    if part and not string.find(text, part, 1, true) then
        host.test_fail(with_note(`raised {show(text)}, wanted it to contain {show(part)}`, note))
    end
    return err
end

function test.run(spec)
    return host.test_run(spec or {})
end

function test.test(name, fn)
    if type(name) ~= "string" or type(fn) ~= "function" then
        host.test_fail("test(name, fn): name must be a string and fn a function")
    end
    if host.test_begin(name) then
        host.test_end(xpcall(fn, host.test_note))
    end
end

return test
