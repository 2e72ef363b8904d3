-- The part of the host that is written in Lua. It runs once per VM, before the sandbox closes, and hands back what the
-- host needs. `native` holds functions that answer `true, results…` or `false, error`.
local native, shape_names = ...

local error, type, tostring, select, xpcall, setmetatable = error, type, tostring, select, xpcall, setmetatable
local string, table, math = string, table, math

local function finish(ok, ...)
    if ok then
        return ...
    end
    error((...), 0)
end

local function guard(raw)
    return function(...)
        return finish(raw(...))
    end
end

-- Functions that may wait: a call that is not answered at once yields, and is resumed when the answer is there.
local start, collect, yield = native.start, native.collect, coroutine.yield

local function answered(ok, ...)
    if ok == nil then
        yield()
        return finish(collect())
    end
    return finish(ok, ...)
end

local function waiting(number)
    return function(...)
        return answered(start(number, ...))
    end
end

-- Three natives of Luau never ask whether they may go on; a bound on their work stands in for that.
local MAX_PRODUCT = 5e8
local MAX_MOVE = 4e6

local find, split, move = string.find, string.split, table.move

local function need_text(value, position, name)
    local kind = type(value)
    if kind ~= "string" and kind ~= "number" then
        error(`invalid argument #{position} to '{name}' (string expected, got {kind})`, 3)
    end
    return if kind == "number" then tostring(value) else value
end

local function bounded_find(subject, pattern, init, plain)
    subject, pattern = need_text(subject, 1, "find"), need_text(pattern, 2, "find")
    if #subject * #pattern > MAX_PRODUCT then
        error("string.find: text and pattern are too long together", 2)
    end
    return find(subject, pattern, init, plain)
end

local function bounded_split(subject, separator)
    subject = need_text(subject, 1, "split")
    separator = if separator == nil then "," else need_text(separator, 2, "split")
    if #subject * #separator > MAX_PRODUCT then
        error("string.split: text and separator are too long together", 2)
    end
    return split(subject, separator)
end

local function bounded_move(from, first, last, at, into)
    if type(from) ~= "table" or (into ~= nil and type(into) ~= "table") then
        error("invalid argument to 'move' (table expected)", 2)
    end
    if type(first) ~= "number" or type(last) ~= "number" or type(at) ~= "number" then
        error("invalid argument to 'move' (number expected)", 2)
    end
    -- Written so that NaN does not pass.
    if not (last - first < MAX_MOVE) then
        error("table.move: too many elements to move", 2)
    end
    return move(from, first, last, at, if into == nil then from else into)
end

string.find = bounded_find
string.split = bounded_split
table.move = bounded_move

-- Addresses differ from run to run, and a script must not: what it was told once it is told again when it is replayed.
local ADDRESS = { table = true, ["function"] = true, thread = true, userdata = true, buffer = true }

local function stable_tostring(...)
    if select("#", ...) == 0 then
        error("missing argument #1 to 'tostring'", 2)
    end
    local value = (...)
    local text = tostring(value)
    local kind = type(value)
    if ADDRESS[kind] and find(text, "^%a+: 0x%x+$") then
        return kind
    end
    return text
end

-- Frozen tables that raise on a field that they cannot have.
local freeze, freeze_plain = native.freeze, table.freeze

local function lock(metatable)
    metatable.__metatable = "locked"
    return freeze_plain(metatable)
end

local function strict(target, name)
    setmetatable(target, lock({
        __index = function(_, key)
            finish(native.unknown(name, key, target))
        end,
    }))
    -- Luau's own refuses tables with a locked metatable.
    return freeze(target)
end

local function seal(environment)
    return setmetatable(environment, lock({
        __index = function(_, key)
            finish(native.unknown_global(key, environment))
        end,
    }))
end

-- Which fields a shape has is known on the other side; a field that is there never asks.
local shapes = {}
local methods = {}
for _, name in shape_names do
    local own = {}
    methods[name] = own
    shapes[name] = lock({
        __index = function(_, key)
            local method = own[key]
            if method == nil then
                finish(native.field(name, key))
            end
            return method
        end,
    })
end

-- Modules. A failure is remembered with its place before it goes on, since passing on hides where it came from.
local loaded, loading = {}, {}

local function require(name)
    local key = finish(native.resolve(name))
    local value = loaded[key]
    if value ~= nil then
        return value
    end
    if loading[key] then
        finish(native.cyclic(key))
    end
    local chunk, is_std = finish(native.load(key))
    loading[key] = true
    local ok, result = xpcall(chunk, native.note)
    loading[key] = nil
    if not ok then
        error(result, 0)
    end
    if result == nil then
        finish(native.empty(key))
    end
    if is_std then
        result = strict(result, key)
    end
    loaded[key] = result
    return result
end

-- Numbers that are random for the author and the same in every replay.
local seeded = table.clone(math)
seeded.randomseed = nil

local failure = lock({
    __tostring = function(err)
        local place = rawget(err, "where")
        return if place then place .. ": " .. err.message else err.message
    end,
    __index = function(_, key)
        finish(native.field("HostError", key))
        return nil
    end,
})

return {
    guard = guard,
    waiting = waiting,
    strict = strict,
    seal = seal,
    shapes = shapes,
    methods = methods,
    require = require,
    tostring = stable_tostring,
    math = seeded,
    failure = failure,
}
