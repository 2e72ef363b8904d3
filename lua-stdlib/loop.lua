-- Rounds with bounds.
local loop = {}

function loop.rounds(...)
    host.check("loop.rounds", ...)
    local options = ... or {}
    local round = 0
    return function()
        if options.max and round >= options.max then
            return nil
        end
        if options.reserve and host.remaining() < options.reserve then
            return nil
        end
        if options.min_budget then
            local left = host.budget()
            if left and left < options.min_budget then
                return nil
            end
        end
        round += 1
        return round
    end
end

return loop
