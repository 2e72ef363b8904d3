-- expect: error still being loaded
-- attack: a script that requires itself
require("./require_itself")
