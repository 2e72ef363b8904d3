-- Commands in the environment.
host.use("process")

local exec = {}

function exec.run(...)
    host.check("exec.run", ...)
    local argv, options = ...
    for index, part in argv do
        if type(part) ~= "string" then
            host.misuse(`exec.run: argument 1 (argv) must hold strings, got a {type(part)} at {index}`)
        end
    end
    return host.exec(argv, options or {})
end

function exec.shell(...)
    host.check("exec.shell", ...)
    local command, options = ...
    return host.exec({ "sh", "-c", command }, options or {})
end

return exec
