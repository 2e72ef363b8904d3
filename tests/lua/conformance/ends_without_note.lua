--[==[
about: what the script returns is kept as a note; a table that cannot be kept is an error
sessions:
  - {text: ok}
end: "fails what the script returned cannot be kept: a function cannot be converted"
]==]
session("x")
return { note = "x", fn = function() end }
