--[==[
about: branches run at the same time, results come in order, the first error in order is raised
sessions:
  - {text: s}
log: |
  1:a 2:b 3:c
  0 results
  together in less than the sum
  at most one of two at a time: 1 in 2 out 2
  runner.lua:38: boom 2
  every branch ran: 1 2 3
  three sessions: 1 2 3
  misuse parallel.map: argument 1 (list) must be a list, got a table with named fields or holes
  misuse parallel.map: option `width` must be a whole number from 1 to 1000, got 0
end: returns done
]==]
local clock = require("@std/clock")
local parallel = require("@std/parallel")
print(table.concat(parallel.map({ "a", "b", "c" }, function(item, i) return `{i}:{item}` end), " "))
print(`{#parallel.map({}, function() return 1 end)} results`)
local began = clock.now()
parallel.map({ 1, 2, 3, 4 }, function() clock.sleep(0.5) end)
print(if clock.now() - began < 1.9 then "together in less than the sum" else "one after the other")
local inside, most, count = 0, 0, 0
parallel.map({ 1, 2 }, function()
    inside += 1
    most = math.max(most, inside)
    count += 1
    clock.sleep(0.01)
    inside -= 1
end, { width = 1 })
print(`at most one of two at a time: {most} in {count} out {count}`)
local ran = {}
local ok, err = pcall(parallel.map, { 1, 2, 3 }, function(item)
    clock.sleep(0.05 * (4 - item))
    table.insert(ran, item)
    if item > 1 then
        error(`boom {item}`)
    end
end)
print(if ok then "no error" else tostring(err))
table.sort(ran)
print(`every branch ran: {table.concat(ran, " ")}`)
local indices = parallel.map({ 1, 2, 3 }, function() return session("x").index end)
print(`three sessions: {table.concat(indices, " ")}`)
local function try(...)
    local _, wrong = pcall(parallel.map, ...)
    print(`{wrong.kind} {wrong.message}`)
end
try({ a = 1 }, print)
try({ 1 }, print, { width = 0 })
return "done"
