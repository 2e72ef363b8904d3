-- expect: error `.` or `..`
-- attack: require of a file outside
require("./../../etc/passwd")
