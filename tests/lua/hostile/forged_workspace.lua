-- expect: error must be a workspace
-- attack: a workspace that the script made itself
require("@std/checks").run({ workspace = { id = 0 } })
