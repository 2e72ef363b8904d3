# Reads `values`, then replaces {{name}} in each line of the input.

BEGIN {
    while ((got = (getline line < values)) > 0) {
        at = index(line, "=")
        if (line ~ /^#/ || at == 0) continue
        value[substr(line, 1, at - 1)] = substr(line, at + 1)
    }
    if (got < 0) fail("cannot read " values)
}

{
    out = ""
    rest = $0
    while (match(rest, /\{\{[A-Za-z_][A-Za-z0-9_]*\}\}/)) {
        out = out substr(rest, 1, RSTART - 1) lookup(substr(rest, RSTART + 2, RLENGTH - 4))
        rest = substr(rest, RSTART + RLENGTH)
    }
    print out rest
}

function lookup(name) {
    if (!(name in value)) fail("no value for " name)
    return value[name]
}

function fail(message) {
    print "stencil: " message | "cat >&2"
    exit 1
}
