-- expect: returns
-- attack: a script's own globals do not reach the standard modules
string = nil
table = nil
type = nil
host = nil
check = nil
return { text = require("@std/prompt").render("{{a}}", { a = "fine" }) }
