# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Which guest tests/interop/run has: of this machine's suite of Debian, or of SUITE, whose kernel,
# compiler and programs come from a root of that suite (tests/systems/root.bash).  The host's side is
# the same with either.

# suite_choose: sets suite, place, where all of it is, images and beside; all else is kept in $work
suite_choose()
{
    local own
    own=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    suite=${SUITE:-$own} place=$PWD/build/interop work=$BUILD/interop beside=$PWD/build/interop/beside
    if [ "$suite" != "$own" ]; then
        # siw-peer is linked here, so the guest's libraries must not be older.
        if [ "$suite" != trixie ]; then
            echo "interop: there is no guest of the suite \"$suite\", only of this machine's and of trixie" >&2
            return 1
        fi
        if [ "$mode" = measure ]; then
            echo "interop: measured is in the guest of this machine's suite only: libraries of both meet there" >&2
            return 1
        fi
        place+=/$suite work+=/$suite
    fi
    images=$place/guest
}

# suite_build: the guest, if it is not up to date
suite_build()
{
    mkdir -p "$place"
    # The lists may be missing altogether on a new machine.
    compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null ||
        $([ "$(id -u)" = 0 ] || echo sudo -n) apt-get -q update >/dev/null
    beside_build || return 1
    if [ "$place" = "${beside%/*}" ]; then
        tools/install-packages guest-build && tests/interop/guest-build "$images"
        return
    fi
    if [ "$(id -u)" != 0 ]; then
        echo "interop: SUITE=$suite needs root, since it makes a root file system and mounts into it" >&2
        return 1
    fi
    . tests/systems/root.bash
    root=$place/root inside=/root/libiwarp binds=$PWD=/root/libiwarp
    root_make && root_names || return 1
    # What it knows of packages is renewed when there is something to build.
    [ -e "$images/version" ] || in_root apt-get -q update >"$place/apt.log" 2>&1 ||
        { tail -n 5 "$place/apt.log" >&2; return 1; }
    in_root tools/install-packages guest-build &&
        in_root tests/interop/guest-build "build/interop/$suite/guest"
}

# What runs outside of the guest and is not to be installed, of this machine's suite.
beside_build()
{
    local names wanted
    names=$(tools/install-packages --list beside)
    # shellcheck disable=SC2086 # words
    wanted=$(apt-cache policy $names | awk '/^[^ ]/ { sub(":", ""); name = $1 } /Candidate:/ { print name, $2 }')
    [ "$wanted" != "$(cat "$beside/version" 2>/dev/null)" ] || return 0
    rm -rf "$beside"
    # shellcheck disable=SC2086 # words
    tests/interop/unpack "$beside" $names && echo "$wanted" >"$beside/version"
}
