-- expect: error there is no `@std/../x`
-- attack: a standard name that climbs
require("@std/../x")
