--[==[
about: phases of a task without any are misuse
end: "fails runner.lua:5: phases.run: the task has no phases; it is for tasks of the track multi_phase"
]==]
require("@std/phases").run()
