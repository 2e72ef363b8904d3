-- expect: error must start with
-- attack: require of an absolute path
require("/etc/passwd")
