--[==[
about: params, task and metadata are frozen tables; a misspelt field raises with the nearest name
files: {a.txt: "x\n"}
params: {rounds: 3, ratio: 0.5, name: x, flag: true, list: [a, b]}
metadata: {level: 2, tags: [p, q], none: null}
log: |
  3 0.5 x true a,b
  task The task Do the task. swe
  2 p,q nil 0
  `params` has no field `round`; did you mean `rounds`?
  `Task` has no field `promt`; did you mean `prompt`?
  attempt to modify a readonly table
  unknown global `sesion`; did you mean `session`?
end: returns done
]==]
print(`{params.rounds} {params.ratio} {params.name} {params.flag} {table.concat(params.list, ",")}`)
print(`{task.id} {task.name} {task.prompt} {task.track}`)
print(`{task.metadata.level} {table.concat(task.metadata.tags, ",")} {rawget(task.metadata, "none")} {#task.phases}`)
local function try(fn)
    local _, err = pcall(fn)
    print(if type(err) == "table" then err.message else string.gsub(err, "^[^ ]+ ", ""))
end
try(function() return params.round end)
try(function() return task.promt end)
try(function() params.rounds = 4 end)
try(function() return sesion end)
return "done"
