-- Files of a workspace. The functions work on the main one, the methods of a handle on that handle's.
host.use("workspace")

local main = host.main_workspace()
local methods = host.methods.Workspace

-- Methods get their handle first; a call with `.` in place of `:` is the usual slip.
local function handle_id(self, name)
    if type(self) ~= "table" or type(rawget(self, "id")) ~= "number" or getmetatable(self) ~= "locked" then
        host.misuse(`Workspace.{name}: call it with a colon, as in ws:{name}(…)`)
    end
    return rawget(self, "id")
end

local operations = {
    read = function(id, path)
        return host.read(id, path)
    end,
    exists = function(id, path)
        return host.exists(id, path)
    end,
    list = function(id, path)
        return host.list(id, path or "")
    end,
    glob = function(id, pattern)
        return host.glob(id, pattern)
    end,
    diff = function(id)
        return host.diff(id)
    end,
    write = function(id, path, content)
        return host.write(id, path, content)
    end,
}

local workspace = { main = main }
for name, operation in operations do
    local path = "workspace." .. name
    workspace[name] = function(...)
        host.check(path, ...)
        return operation(0, ...)
    end
    methods[name] = function(self, ...)
        local id = handle_id(self, name)
        host.check(path, ...)
        return operation(id, ...)
    end
end

return workspace
