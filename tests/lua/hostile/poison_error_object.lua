-- expect: error readonly
-- attack: an error of the host cannot be changed
local _, err = pcall(session)
rawset(err, "kind", "refused")
