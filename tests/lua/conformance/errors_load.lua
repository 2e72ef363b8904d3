--[==[
about: a module that does not compile is an error of loading, with the line and a caret
modules:
  broken.lua: "local x = = 1\n"
log: |
  it is not there
end: |-
  fails broken.lua:1: Expected identifier when parsing expression, got '='
    |
  1 | local x = = 1
    |           ^
    at broken.lua:1
    at runner.lua:17
]==]
local ok, err = pcall(require, "./absent")
print(if ok then "it is there" else "it is not there")
require("./broken")
