-- Money of the attempt.
local budget = {}

function budget.remaining(...)
    host.check("budget.remaining", ...)
    local remaining = host.budget()
    return remaining
end

function budget.spent(...)
    host.check("budget.spent", ...)
    local _, spent = host.budget()
    return spent
end

return budget
