-- expect: error holds `..`
-- attack: a path that leads out of the workspace
require("@std/workspace").write("../../x", "x")
