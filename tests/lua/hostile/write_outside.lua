-- expect: error holds `..`
-- attack: a path that holds `..` of the workspace
require("@std/workspace").write("../../x", "x")
