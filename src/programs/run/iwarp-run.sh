#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# iwarp-run: starts a program with this tree's libibverbs.so.1 and librdmacm.so.1 in place of the
# system's.  See iwarp-run(1).  It finds them beside itself (build tree, or an installed tree that
# was moved), else where `make install` put them.  What it does to the environment is all that
# there is to it; it does not stay while the program runs.
set -u
version='@VERSION@'
installed='@COMPATDIR@'
settings='addr allow config confirm-writes crc crc32c devices faults ktls log look markers metrics mpa-rev
                   pcap pcap-max persona placement progress read-sink rfc7306 rnr-bytes rnr-max
                   rnr-timeout send-imm sockets-quiet sockets-reply strict tls tls-keylog transport ulpdu-max workers'

# The program's own status is the caller's to see: ours are those of env(1).
fail()
{
    status=$1
    shift
    printf 'iwarp-run: %s\n' "$*" >&2
    exit "$status"
}

usage()
{
    cat <<END
Usage: iwarp-run [OPTION...] [--] PROGRAM [ARGUMENT...]
       iwarp-run --check PROGRAM
Starts an RDMA program on iWARP in user space: no RNIC, no kernel module, no root.

  --preload        load the libraries ahead of everything, also in what PROGRAM starts;
                   for programs that load libibverbs by a path of their own
  --sockets        PROGRAM uses sockets: its TCP connections become RDMA where the peer
                   is such a program, too
  --fake-sys       show PROGRAM the device under /sys/class/infiniband, in namespaces of its own
  --check PROGRAM  start nothing, say which libraries PROGRAM would get
  --NAME=VALUE     setting IWARP_NAME, see iwarp_env(7), for this run:
                   $settings
  --version, --help

The status is that of PROGRAM; 125: iwarp-run failed, 126: PROGRAM cannot be started, 127: there is
none.
END
}

# sets self
find_self()
{
    case $0 in
    */*) self=$0 ;;
    *) self=$(command -v -- "$0") || self=$0 ;;
    esac
    [ ! -h "$self" ] || self=$(readlink -f -- "$self") || fail 125 "cannot find out where I am: $0"
}

# is_place FOLDER: there are the two libraries or, on 32 bits, the one for programs of sockets
is_place()
{
    { [ -e "$1/libibverbs.so.1" ] && [ -e "$1/librdmacm.so.1" ]; } ||
        { [ $sockets = 1 ] && [ -e "$1/librspreload.so" ]; }
}

# Where the libraries are: sets lib
find_libraries()
{
    case $self in
    */*) here=${self%/*} ;;
    *) here=. ;;
    esac
    for lib in "$here/../lib/compat" "$here/../lib/libiwarp/compat" "$installed"; do
        if is_place "$lib"; then
            lib=$(CDPATH='' cd -P -- "$lib" && pwd -P) || fail 125 "$lib: cannot look into it"
            # Neither variable has a way to write these.
            case $lib in
            *[:\;]*) fail 125 "$lib: a path with : or ; cannot be in LD_LIBRARY_PATH" ;;
            esac
            return
        fi
    done
    here=$(readlink -f -- "$here")
    fail 125 "no libibverbs.so.1 and librdmacm.so.1 in ${here%/*}/lib/compat or $installed;" \
        'make builds and installs them where libibverbs-dev and librdmacm-dev are'
}

# sets path to the file that the shell would start
find_program()
{
    path=$(command -v -- "$1" 2>/dev/null) || path=
    case $path in
    */*) ;;
    *)
        # A builtin or a keyword of this shell may be a program, too.
        path=
        rest=$PATH:
        while [ -n "$rest" ] && [ -z "$path" ]; do
            dir=${rest%%:*}
            rest=${rest#*:}
            [ ! -x "${dir:-.}/$1" ] || [ -d "${dir:-.}/$1" ] || path=${dir:-.}/$1
        done
        ;;
    esac
    case $1 in
    */*)
        [ -e "$1" ] || fail 127 "$1: no such program"
        if [ ! -x "$1" ] || [ -d "$1" ]; then
            fail 126 "$1: not a program that can be started"
        fi
        path=$1
        ;;
    esac
    [ -n "$path" ] || fail 127 "$1: no such program in PATH"
}

# What the loader would load with the program: sets loader, empty if none is for it (a script, a
# static program), and loaded, a line for each library.  A loader that lists the libraries of a
# static program crashes, so it is asked first.
ask_loader()
{
    for loader in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1 /lib64/ld64.so.2 \
        /lib/ld64.so.1 /lib/ld-linux-riscv64-lp64d.so.1 /lib/ld-linux-armhf.so.3; do
        { [ -x $loader ] && $loader --verify "$path" >/dev/null 2>&1; } || continue
        loaded=$(LD_LIBRARY_PATH=$library_path LD_PRELOAD='' LD_TRACE_LOADED_OBJECTS=1 \
            $loader "$path" 2>/dev/null)
        loaded=$newline$loaded$newline
        return
    done
    loader='' loaded=
}

# resolve NAME: sets file to what the loader would take for it; empty if it is not asked for
resolve()
{
    file=${loaded#*"$newline$tab$1 => "}
    [ "$file" != "$loaded" ] || file=
    file=${file%%"$newline"*}
    case $file in
    *' (0x'*')') file=${file% (0x*} ;;
    *) file= ;; # not found
    esac
}

# is_ours NAME FILE
is_ours()
{
    [ "$2" = "$lib/$1" ] ||
        { [ -n "$2" ] && [ "$(readlink -f -- "$2")" = "$(readlink -f -- "$lib/$1")" ]; }
}

# With more rights than its user the loader looks at none of our variables.
privileged()
{
    if [ -u "$path" ] || [ -g "$path" ]; then
        why=set-uid
    elif command -v getcap >/dev/null && [ -n "$(getcap -- "$path" 2>/dev/null)" ]; then
        why='a file with capabilities'
    else
        return 1
    fi
}

check()
{
    good=0
    ask_loader
    printf 'program: %s\n' "$path"
    [ -n "$loader" ] || echo "  not for this machine's loader (a script, or linked statically)"
    for name in libibverbs.so.1 librdmacm.so.1; do
        resolve $name
        if [ -z "$file" ]; then
            printf '  %s: not linked; what loads it later by this name gets %s\n' $name "$lib/$name"
        elif is_ours $name "$file"; then
            printf '  %s => %s\n' $name "$lib/$name"
        else
            printf '  %s => %s: its own path (RPATH) goes first, so it is preloaded: %s\n' $name \
                "$file" "$lib/$name"
        fi
    done
    for name in libibverbs.so librdmacm.so; do
        if ! is_ours $name.1 "$lib/$name"; then
            printf '  warning: %s is missing: what asks for it gets the system library\n' "$lib/$name"
            good=1
        fi
    done
    if privileged; then
        printf '  warning: %s: it will get the system libraries unless you are its user\n' "$why"
        good=1
    fi
    exit $good
}

# setting NAME VALUE: in the environment as IWARP_NAME
setting()
{
    for known in $settings; do
        if [ "$known" = "$1" ]; then
            export "IWARP_$(printf '%s' "$1" | tr 'a-z-' 'A-Z_')=$2"
            return
        fi
    done
    fail 125 "--$1=$2: no such option; see iwarp-run --help"
}

# Starts this script anew in namespaces in which /sys/class may be replaced.
enter_namespaces()
{
    command -v unshare >/dev/null || fail 125 '--fake-sys needs unshare (util-linux)'
    for how in '-m' '-Umc --keep-caps' '-Urm'; do
        # shellcheck disable=SC2086 # options
        if unshare $how mount -t tmpfs iwarp /sys/class 2>/dev/null; then
            IWARP_RUN_INSIDE=$$ exec unshare $how -- /bin/sh "$self" "$@"
        fi
    done
    fail 125 '--fake-sys: no mount namespace can be had here (needs root, or namespaces of users)'
}

# attribute FILE VALUE
attribute()
{
    mkdir -p "${1%/*}" && printf '%s\n' "$2" >"$1"
}

is_down()
{
    [ "$(cat "$1/operstate" 2>/dev/null || echo down)" = down ]
}

# fake_device NAME [INTERFACE]
fake_device()
{
    device=/sys/class/infiniband/$1
    attribute "$device/node_type" '4: RNIC'
    attribute "$device/fw_ver" "$version"
    attribute "$device/ports/1/state" '4: ACTIVE'
    attribute "$device/ports/1/phys_state" '5: LinkUp'
    attribute "$device/ports/1/link_layer" Ethernet
    mkdir -p "$device/device/net"
    [ -z "${2-}" ] || ln -s "$2" "$device/device/net/"
}

# first_in FILE NAME: sets value to that of its first line NAME = value, as iwarp_env(7) says; fails
# if there is none
first_in()
{
    value=
    [ -f "$1" ] && [ -r "$1" ] || return 1
    line=$(sed -n "s/^[[:space:]]*$2[[:space:]]*=[[:space:]]*/=/p" "$1" | sed 1q)
    [ -n "$line" ] || return 1
    value=$(printf '%s\n' "${line#=}" | sed 's/[[:space:]]*$//; s/^"\(.*\)"$/\1/')
}

# wished NAME: sets value to what the library will take this setting for; empty if it is not set
wished()
{
    if eval "[ -n \"\${$1+set}\" ]"; then
        eval "value=\$$1"
    elif [ -n "${IWARP_CONFIG+set}" ]; then
        first_in "$IWARP_CONFIG" "$1"
    else
        case ${XDG_CONFIG_HOME-} in
        /*) user_file=$XDG_CONFIG_HOME/iwarp.conf ;;
        *) user_file=${HOME-}/.config/iwarp.conf ;;
        esac
        first_in "$user_file" "$1" || first_in /etc/iwarp.conf "$1"
    fi
}

# The classes as they are, by links as there are, and one more.
fake_sys()
{
    if ! { cd /sys/class && mount -t tmpfs -o mode=755 iwarp /sys/class &&
        find . -maxdepth 2 -type l -exec cp -P --parents -t /sys/class {} +; }; then
        fail 125 '--fake-sys: cannot replace /sys/class'
    fi
    cd "$from" || cd /
    wished IWARP_DEVICES
    if [ "$value" = per-interface ]; then
        for net in /sys/class/net/*; do
            [ "${net##*/}" = lo ] || is_down "$net" || fake_device "iwarp_${net##*/}" "$net"
        done
        [ -d /sys/class/infiniband ] || fake_device iwarp_lo /sys/class/net/lo
    else
        fake_device iwarp0
        for net in /sys/class/net/*; do
            # Loopback only if there is nothing else: programs take the first.
            [ "${net##*/}" = lo ] || is_down "$net" || ln -s "$net" "$device/device/net/"
        done
        [ -n "$(ls "$device/device/net")" ] || ln -s /sys/class/net/lo "$device/device/net/"
    fi
}

# Empty and unset are not the same to the loader: : at an end is the working directory.
run()
{
    # The files of a RoCE adapter are shown by functions that come before the C library's.
    files=
    wished IWARP_PERSONA
    [ "$value" != roce ] || preload=1 files=:$lib/libiwarp-files.so
    [ $sockets = 0 ] || preload=1 files=$files:$lib/librspreload.so
    if [ $preload = 0 ]; then
        ask_loader
        for name in libibverbs.so.1 librdmacm.so.1; do
            resolve $name
            [ -z "$file" ] || is_ours $name "$file" || preload=1
        done
    fi
    ! privileged || printf 'iwarp-run: warning: %s is %s: the loader may ignore what is asked for\n' \
        "$path" "$why" >&2
    LD_LIBRARY_PATH=$library_path
    export LD_LIBRARY_PATH
    if [ $preload = 1 ]; then
        # Blanks separate names there, and there is no way to write one.
        case $lib in
        *[[:space:]]*) fail 125 "$lib: a path with a blank cannot be in LD_PRELOAD" ;;
        esac
        [ ! -e "$lib/libibverbs.so.1" ] || files=:$lib/libibverbs.so.1:$lib/librdmacm.so.1$files
        LD_PRELOAD=${files#:}${LD_PRELOAD:+:$LD_PRELOAD}
        export LD_PRELOAD
    fi
    unset IWARP_RUN_INSIDE
    exec "$program" "$@"
}

preload=0 sockets=0 fake=0 mode=run from=$PWD
tab='	'
newline='
'
find_self
inside=
[ "${IWARP_RUN_INSIDE-}" != $$ ] || inside=1
# What is left is kept whole for the second start.
for word; do
    case $word in
    --fake-sys) [ -n "$inside" ] || fake=1 ;;
    -*) ;;
    *) break ;;
    esac
    [ "$word" != -- ] || break
done
[ $fake = 0 ] || enter_namespaces "$@"

while [ $# -gt 0 ]; do
    case $1 in
    --preload) preload=1 ;;
    --sockets) sockets=1 ;;
    --check) mode=check ;;
    --fake-sys) fake=1 ;;
    --help | -h)
        usage
        exit
        ;;
    --version)
        echo "iwarp-run (libiwarp) $version"
        exit
        ;;
    --)
        shift
        break
        ;;
    --*=*)
        name=${1%%=*}
        setting "${name#--}" "${1#*=}"
        ;;
    -*) fail 125 "$1: no such option; see iwarp-run --help" ;;
    *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || fail 125 'which program? See iwarp-run --help'

program=$1
shift
find_libraries
find_program "$program"
library_path=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
[ $mode = run ] || check
[ $fake = 0 ] || fake_sys
run "$@"
