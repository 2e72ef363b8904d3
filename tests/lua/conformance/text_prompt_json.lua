--[==[
about: pure modules say the same in both worlds
log: |
  2 true true true
  > a|> b
  Fix a.py now.
  one||two
  ### T|b
  {"a":[1,null],"b":"x"}
  3 nil true
  7
  nil
  true
  cut: 20
end: returns done
]==]
local json = require("@std/json")
local prompt = require("@std/prompt")
local text = require("@std/text")
print(`{#text.lines("a\nb\n")} {text.starts_with("abc", "a")} {text.ends_with("abc", "bc")} {text.contains("a.c", ".")}`)
print((string.gsub(text.indent("a\nb", "> "), "\n", "|")))
print(prompt.render("Fix {{file}} {{when.now}}.", { file = "a.py", when = { now = "now" } }))
print((string.gsub(prompt.join({ "one", false, "", "two" }), "\n", "|")))
print((string.gsub(string.gsub(prompt.section("T", "b"), "^#+", "###"), "\n+", "|")))
print(json.encode({ b = "x", a = { 1, json.null } }))
local value = json.decode('{"a": [1, null, 3], "b": null}')
print(`{value.a[3]} {rawget(value, "b")} {value.a[2] == json.null}`)
print(tostring(json.extract("well: {\"score\": 7} so").score))
print(tostring(json.extract("nothing")))
print(tostring(text.contains(prompt.fence("```\ncode"), "````")))
print(`cut: {#text.truncate(string.rep("x", 100), 20)}`)
return text.trim("  done ")
