-- Choosing among several.
local vote = {}

function vote.majority(...)
    host.check("vote.majority", ...)
    local list, key = ...
    local counts, order = {}, {}
    for _, item in list do
        local choice = item
        if key then
            choice = key(item)
        end
        -- NaN equals nothing, itself included, so it cannot be counted.
        if choice ~= nil and choice == choice then
            if counts[choice] == nil then
                counts[choice] = 0
                table.insert(order, choice)
            end
            counts[choice] += 1
        end
    end
    local best, most = nil, 0
    for _, choice in order do
        if counts[choice] > most then
            best, most = choice, counts[choice]
        end
    end
    return best, most
end

function vote.best(...)
    host.check("vote.best", ...)
    local list, score = ...
    local best, at, highest = nil, nil, nil
    for index, item in list do
        local value = score(item, index)
        if value ~= nil and type(value) ~= "number" then
            host.misuse(`vote.best: score must return a number or nil, got a {type(value)} for item {index}`)
        end
        if value ~= nil and value == value and (highest == nil or value > highest) then
            best, at, highest = item, index, value
        end
    end
    return best, at, highest
end

return vote
