#!/bin/sh
# Makes the images that the Docker tests run in, where they are missing: no registry is asked.
# Needs root, debootstrap and busybox-static.
set -eu

here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT INT TERM

have() { docker image inspect "$1" > /dev/null 2>&1; }

# A shell, its small tools, a line for root in the table of users, and nothing else.
busybox() {
    root=$here/busybox
    mkdir -p "$root/bin" "$root/etc" "$root/root" "$root/tmp" "$root/var/tmp"
    chmod 1777 "$root/tmp" "$root/var/tmp"
    cp "$(command -v busybox)" "$root/bin/busybox"
    for applet in $("$root/bin/busybox" --list); do
        [ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"
    done
    echo 'root:x:0:0:root:/root:/bin/sh' > "$root/etc/passwd"
    tar -C "$root" -c . | docker import - "$1"
}

# A small Debian with bash, dash, git, python3 and pytest.
debian() {
    root=$here/debian
    debootstrap --variant=minbase --include=git,procps,python3,python3-pytest bookworm "$root" > "$here/log" 2>&1 ||
        { tail -n 20 "$here/log" >&2 && return 1; }
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    tar -C "$root" -c . | docker import - "$1"
}

have refrain-test/busybox:1 || busybox refrain-test/busybox:1
have refrain-test/debian:1 || debian refrain-test/debian:1
