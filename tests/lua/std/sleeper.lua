local clock = require("@std/clock")

while true do
    clock.sleep(3600)
    log.info("slept until " .. clock.now())
end
