-- expect: error
-- attack: metatables of the host are locked
setmetatable(task, {})
