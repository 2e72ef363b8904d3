# Adds up the column named `column`.

NR == 1 {
    n = fields($0)
    for (i = 1; i <= n; i++) if (field[i] == column) at = i
    if (!at) fail("no column " column)
    next
}

{
    fields($0)
    text = field[at]
    if (text != "" && text !~ /^-?[0-9]+(\.[0-9]+)?$/) fail("line " NR ": not a number: " text)
    sum += text
}

END { if (!failed) printf "%.2f\n", sum }

# Splits a line into field[1..n] and returns n.
function fields(line) {
    return split(line, field, ",")
}

function fail(message) {
    failed = 1
    print "csvtotal: " message | "cat >&2"
    exit 1
}
