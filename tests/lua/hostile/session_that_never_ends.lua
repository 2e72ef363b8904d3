-- expect: stopped
-- attack: the script waits when the deadline comes
require("@std/clock").sleep(3600)
