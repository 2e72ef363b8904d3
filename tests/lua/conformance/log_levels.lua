--[==[
about: log lines keep their level; anything is shown as tostring shows it; long lines are cut
log: |
  debug: d
  i
  warn: 3
  error: nil
  true
  16401 bytes that end in xxxxx… [5 bytes cut]
end: returns done
]==]
log.debug("d")
log.info("i")
log.warn(3)
log.error(nil)
print(true)
local long = string.rep("x", 16384 + 5)
log.info(long)
return "done"
