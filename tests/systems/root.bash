# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# A root of another suite of Debian, made with the mirror and the settings of this machine's own apt,
# and entered: for tests/systems/run and tests/interop/run.  They set suite, its name; root, where it is;
# inside, the folder of it in which commands run; and binds, folders of this machine that are seen in
# it, too, words FROM=TO.  All is mounted in a mount namespace and runs in a process namespace, so
# nothing is left of either, however this ends.
binds=

# Each repository that this machine's apt has of its own suite, with the name of the other suite in
# it: "URI SUITE COMPONENT...".  The unstable suite has no updates and no security of its own.
sources()
{
    local own
    own=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' |
        awk -v own="$own" -v suite="$suite" '
        $2 == own { $2 = suite }
        index($2, own "-") == 1 && suite != "sid" { $2 = suite substr($2, length(own) + 1) }
        $2 == suite || index($2, suite "-") == 1 {
            key = $1 " " $2
            if (!(key in components)) { order[++n] = key }
            if (index(" " components[key] " ", " " $3 " ") == 0) {
                components[key] = components[key] " " $3
            }
        }
        END { for (i = 1; i <= n; i++) { print order[i] components[order[i]] } }'
}

# What decides how this machine's apt reaches its mirror, and nothing of what it does otherwise
apt_settings()
{
    apt-config dump | grep -E '^Acquire::' | grep -vE '^Acquire::(Languages|GzipIndexes|IndexTargets|Changelogs|CompressionTypes)'
    echo 'Acquire::Languages "none";'
    echo 'APT::Keep-Downloaded-Packages "false";'
    echo 'APT::Install-Recommends "false";'
}

# root_make: makes it, unless it is there; what debootstrap says goes to a file beside it
root_make()
{
    local mirror
    [ ! -d "$root" ] || return 0
    tools/install-packages systems || return 1
    mirror=$(sources | awk -v suite="$suite" '$2 == suite { print $1; exit }')
    [ -n "$mirror" ] || { echo "apt of this machine has no repository of its own suite to go by" >&2; return 1; }
    echo "making $root"
    rm -rf "$root.new"
    # It mounts, too: below a mount namespace nothing of that can stay.
    if ! unshare -m -p --fork --kill-child debootstrap --variant=minbase \
        --include=ca-certificates,git,gcc,make "$suite" "$root.new" "$mirror" >"$root.log" 2>&1; then
        tail -n 5 "$root.log" >&2
        echo "debootstrap failed, see $root.log" >&2
        return 1
    fi
    sources | sed 's/^/deb /' >"$root.new/etc/apt/sources.list"
    apt_settings >"$root.new/etc/apt/apt.conf.d/99machine"
    echo force-unsafe-io >"$root.new/etc/dpkg/dpkg.cfg.d/quick"
    # No package may start a service.
    printf '#!/bin/sh\nexit 101\n' >"$root.new/usr/sbin/policy-rc.d"
    chmod 755 "$root.new/usr/sbin/policy-rc.d"
    cat /proc/sys/kernel/hostname >"$root.new/etc/hostname"
    mv "$root.new" "$root"
}

# root_names: how names are looked up in it, which may change between runs
root_names()
{
    cat /etc/resolv.conf >"$root/etc/resolv.conf"
    { printf '127.0.0.1 localhost\n::1 localhost\n'; grep -v '[[:space:]]localhost' /etc/hosts; } >"$root/etc/hosts"
}

# in_root COMMAND...: with an environment of its own
in_root()
{
    local name
    local -a keep=()
    for name in CI NO_APT http_proxy https_proxy no_proxy; do
        [ -z "${!name-}" ] || keep+=("$name=${!name}")
    done
    # shellcheck disable=SC2016 # expanded inside
    unshare -m -p --fork --kill-child bash -c '
        set -e
        root=$1 inside=$2 binds=$3
        shift 3
        mount --bind "$root" "$root"
        cd "$root"
        mount -t proc proc proc
        mount --rbind /sys sys
        mount --rbind /dev dev
        mount -t tmpfs -o mode=1777 tmpfs tmp
        for bind in $binds; do
            mkdir -p ".${bind#*=}"
            mount --bind "${bind%%=*}" ".${bind#*=}"
        done
        # A mere chroot would not do: within one no user may make namespaces.
        pivot_root . .
        umount -l .
        cd /
        exec /usr/bin/env -i "$@"' in_root "$root" "$inside" "$binds" \
        HOME=/root USER=root TERM=dumb LC_ALL=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${keep[@]}" \
        sh -c 'cd "$0" && exec "$@"' "$inside" "$@" </dev/null
}
