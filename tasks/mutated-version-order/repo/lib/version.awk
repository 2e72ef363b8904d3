# Picks the highest version. `compare` returns a number below, equal to or above 0.

/^v?[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$/ {
    if (best == "" || compare($0, best) > 0) best = $0
}

END { if (best != "") print best }

function compare(a, b,    x, y, i, pre_a, pre_b) {
    pre_a = prerelease(a)
    pre_b = prerelease(b)
    split(core(a), x, ".")
    split(core(b), y, ".")
    for (i = 1; i <= 3; i++)
        if (x[i] + 0 != y[i] + 0) return x[i] - y[i]
    if (pre_a == pre_b) return 0
    if (pre_a == "") return 1
    if (pre_b == "") return -1
    return compare_prerelease(pre_a, pre_b)
}

function compare_prerelease(a, b,    x, y, n, m, i) {
    n = split(a, x, ".")
    m = split(b, y, ".")
    for (i = 1; i <= n && i <= m; i++) {
        if (x[i] "" == y[i] "") continue
        if (numeric(x[i]) && numeric(y[i])) return x[i] - y[i]
        if (numeric(x[i])) return -1
        if (numeric(y[i])) return 1
        return (x[i] "" < y[i] "") ? -1 : 1
    }
    return n - m
}

function numeric(part) { return part ~ /^[0-9]+$/ }

function core(version) {
    sub(/^v/, "", version)
    sub(/-.*$/, "", version)
    return version
}

function prerelease(version) {
    return index(version, "-") ? substr(version, index(version, "-") + 1) : ""
}
