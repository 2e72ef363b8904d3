-- expect: error readonly
-- attack: a standard module cannot be changed
require("@std/json").encode = print
