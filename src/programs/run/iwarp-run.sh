#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# iwarp-run: starts a program with this tree's libibverbs.so.1 and librdmacm.so.1 in place of the
# system's.  See iwarp-run(1).  It finds them beside itself (build tree, or an installed tree that
# was moved), else where `make install` put them.  What it does to the environment is all that
# there is to it; it does not stay while the program runs.
#
# Its variables begin with run_: one of the environment that had the name of a variable here would
# have another value in the program.
set -u
run_version='@VERSION@'
run_installed='@COMPATDIR@'
run_settings='addr allow config confirm-writes copy-payload crc crc32c devices faults ktls log look markers
                   metrics mpa-rev pcap pcap-max persona placement progress read-sink rfc7306 rnr-bytes rnr-max
                   rnr-timeout send-imm sockets-quiet sockets-reply strict tls tls-keylog transport ulpdu-max workers'

# The program's own status is the caller's to see: ours are those of env(1).
fail()
{
    run_status=$1
    shift
    printf 'iwarp-run: %s\n' "$*" >&2
    exit "$run_status"
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
                   $run_settings
  --version, --help

The status is that of PROGRAM; 125: iwarp-run failed, 126: PROGRAM cannot be started, 127: there is
none.
END
}

# sets run_self
find_self()
{
    case $0 in
    */*) run_self=$0 ;;
    *) run_self=$(command -v -- "$0") || run_self=$0 ;;
    esac
    [ ! -h "$run_self" ] || run_self=$(readlink -f -- "$run_self") || fail 125 "cannot find out where I am: $0"
}

# is_place FOLDER: there are the two libraries or, on 32 bits, the one for programs of sockets
is_place()
{
    { [ -e "$1/libibverbs.so.1" ] && [ -e "$1/librdmacm.so.1" ]; } ||
        { [ $run_sockets = 1 ] && [ -e "$1/librspreload.so" ]; }
}

# Where the libraries are: sets run_lib
find_libraries()
{
    case $run_self in
    */*) run_here=${run_self%/*} ;;
    *) run_here=. ;;
    esac
    for run_lib in "$run_here/../lib/compat" "$run_here/../lib/libiwarp/compat" "$run_installed"; do
        if is_place "$run_lib"; then
            run_lib=$(CDPATH='' cd -P -- "$run_lib" && pwd -P) || fail 125 "$run_lib: cannot look into it"
            # Neither variable has a way to write these.
            case $run_lib in
            *[:\;]*) fail 125 "$run_lib: a path with : or ; cannot be in LD_LIBRARY_PATH" ;;
            esac
            return
        fi
    done
    run_here=$(readlink -f -- "$run_here")
    # In a build tree no place was put in.
    case $run_installed in
    /*) run_installed=" or $run_installed" ;;
    *) run_installed= ;;
    esac
    fail 125 "no libibverbs.so.1 and librdmacm.so.1 in ${run_here%/*}/lib/compat$run_installed;" \
        'make builds them if the packages libibverbs-dev and librdmacm-dev are installed'
}

# sets run_path to the file that the shell would start
find_program()
{
    run_path=$(command -v -- "$1" 2>/dev/null) || run_path=
    case $run_path in
    */*) ;;
    *)
        # A builtin or a keyword of this shell may be a program, too.
        run_path=
        run_rest=$PATH:
        while [ -n "$run_rest" ] && [ -z "$run_path" ]; do
            run_dir=${run_rest%%:*}
            run_rest=${run_rest#*:}
            [ ! -x "${run_dir:-.}/$1" ] || [ -d "${run_dir:-.}/$1" ] || run_path=${run_dir:-.}/$1
        done
        ;;
    esac
    case $1 in
    */*)
        [ -e "$1" ] || fail 127 "$1: no such program"
        if [ ! -x "$1" ] || [ -d "$1" ]; then
            fail 126 "$1: not a program that can be started"
        fi
        run_path=$1
        ;;
    esac
    [ -n "$run_path" ] || fail 127 "$1: no such program in PATH"
}

# What the loader would load with the program: sets run_loader, empty if none is for it (a script, a
# static program), and run_loaded, a line for each library.  A loader that lists the libraries of a
# static program crashes, so it is asked first whether it is for this program.
ask_loader()
{
    for run_loader in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1 /lib64/ld64.so.2 \
        /lib/ld64.so.1 /lib/ld-linux-riscv64-lp64d.so.1 /lib/ld-linux-armhf.so.3; do
        { [ -x $run_loader ] && $run_loader --verify "$run_path" >/dev/null 2>&1; } || continue
        run_loaded=$(LD_LIBRARY_PATH=$run_library_path LD_PRELOAD='' LD_TRACE_LOADED_OBJECTS=1 \
            $run_loader "$run_path" 2>/dev/null)
        run_loaded=$run_newline$run_loaded$run_newline
        return
    done
    run_loader='' run_loaded=
}

# resolve NAME: sets run_file to what the loader would take for it; empty if it is not asked for
resolve()
{
    run_file=${run_loaded#*"$run_newline$run_tab$1 => "}
    [ "$run_file" != "$run_loaded" ] || run_file=
    run_file=${run_file%%"$run_newline"*}
    case $run_file in
    *' (0x'*')') run_file=${run_file% (0x*} ;;
    *) run_file= ;; # not found
    esac
}

# is_ours NAME FILE
is_ours()
{
    [ "$2" = "$run_lib/$1" ] ||
        { [ -n "$2" ] && [ "$(readlink -f -- "$2")" = "$(readlink -f -- "$run_lib/$1")" ]; }
}

# With more rights than its user the loader looks at none of our variables.
privileged()
{
    if [ -u "$run_path" ] || [ -g "$run_path" ]; then
        run_why=set-uid
    elif command -v getcap >/dev/null && [ -n "$(getcap -- "$run_path" 2>/dev/null)" ]; then
        run_why='a file with capabilities'
    else
        return 1
    fi
}

check()
{
    run_good=0
    ask_loader
    printf 'program: %s\n' "$run_path"
    [ -n "$run_loader" ] || echo "  not for this machine's loader (a script, or linked statically)"
    for run_name in libibverbs.so.1 librdmacm.so.1; do
        resolve $run_name
        if [ -z "$run_file" ]; then
            printf '  %s: not linked; what loads it later by this name gets %s\n' $run_name "$run_lib/$run_name"
        elif is_ours $run_name "$run_file"; then
            printf '  %s => %s\n' $run_name "$run_lib/$run_name"
        else
            printf '  %s => %s: its own path (RPATH) goes first, so it is preloaded: %s\n' $run_name \
                "$run_file" "$run_lib/$run_name"
        fi
    done
    for run_name in libibverbs.so librdmacm.so; do
        if ! is_ours $run_name.1 "$run_lib/$run_name"; then
            printf '  warning: %s is missing: what asks for it gets the system library\n' "$run_lib/$run_name"
            run_good=1
        fi
    done
    if privileged; then
        printf '  warning: %s: it will get the system libraries unless you are its user\n' "$run_why"
        run_good=1
    fi
    exit $run_good
}

# setting NAME VALUE: in the environment as IWARP_NAME
setting()
{
    for run_known in $run_settings; do
        if [ "$run_known" = "$1" ]; then
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
    for run_how in '-m' '-Umc --keep-caps' '-Urm'; do
        # shellcheck disable=SC2086 # options
        if unshare $run_how mount -t tmpfs iwarp /sys/class 2>/dev/null; then
            IWARP_RUN_INSIDE=$$ exec unshare $run_how -- /bin/sh "$run_self" "$@"
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
    run_device=/sys/class/infiniband/$1
    attribute "$run_device/node_type" '4: RNIC'
    attribute "$run_device/fw_ver" "$run_version"
    attribute "$run_device/ports/1/state" '4: ACTIVE'
    attribute "$run_device/ports/1/phys_state" '5: LinkUp'
    attribute "$run_device/ports/1/link_layer" Ethernet
    mkdir -p "$run_device/device/net"
    [ -z "${2-}" ] || ln -s "$2" "$run_device/device/net/"
}

# first_in FILE NAME: sets run_value to that of its first line NAME = value, as iwarp_env(7) says;
# fails if there is none
first_in()
{
    run_value=
    [ -f "$1" ] && [ -r "$1" ] || return 1
    run_line=$(sed -n "s/^[[:space:]]*$2[[:space:]]*=[[:space:]]*/=/p" "$1" | sed 1q)
    [ -n "$run_line" ] || return 1
    run_value=$(printf '%s\n' "${run_line#=}" | sed 's/[[:space:]]*$//; s/^"\(.*\)"$/\1/')
}

# wished NAME: sets run_value to what the library will take this setting for; empty if it is not set
wished()
{
    if eval "[ -n \"\${$1+set}\" ]"; then
        eval "run_value=\$$1"
    elif [ -n "${IWARP_CONFIG+set}" ]; then
        first_in "$IWARP_CONFIG" "$1"
    else
        case ${XDG_CONFIG_HOME-} in
        /*) run_user_file=$XDG_CONFIG_HOME/iwarp.conf ;;
        *) run_user_file=${HOME-}/.config/iwarp.conf ;;
        esac
        first_in "$run_user_file" "$1" || first_in /etc/iwarp.conf "$1"
    fi
}

# The classes as they are, by links as there are, and one more.
fake_sys()
{
    if ! { cd /sys/class && mount -t tmpfs -o mode=755 iwarp /sys/class &&
        find . -maxdepth 2 -type l -exec cp -P --parents -t /sys/class {} +; }; then
        fail 125 '--fake-sys: cannot replace /sys/class'
    fi
    cd "$run_from" || cd /
    wished IWARP_DEVICES
    if [ "$run_value" = per-interface ]; then
        for run_net in /sys/class/net/*; do
            [ "${run_net##*/}" = lo ] || is_down "$run_net" || fake_device "iwarp_${run_net##*/}" "$run_net"
        done
        [ -d /sys/class/infiniband ] || fake_device iwarp_lo /sys/class/net/lo
    else
        fake_device iwarp0
        for run_net in /sys/class/net/*; do
            # Loopback only if there is nothing else: programs take the first.
            [ "${run_net##*/}" = lo ] || is_down "$run_net" || ln -s "$run_net" "$run_device/device/net/"
        done
        [ -n "$(ls "$run_device/device/net")" ] || ln -s /sys/class/net/lo "$run_device/device/net/"
    fi
}

# The library has numbers of its own for each connection. With the usual 1,024 a server would have
# half of its connections only. What it may have at most stays.
more_numbers()
{
    run_soft=$(ulimit -S -n) run_hard=$(ulimit -H -n)
    [ "$run_soft" != unlimited ] && [ "$run_soft" -lt 8192 ] || return 0
    [ "$run_hard" != unlimited ] && [ "$run_hard" -lt 8192 ] || run_hard=8192
    ulimit -S -n "$run_hard" 2>/dev/null || return 0
}

# Empty and unset are not the same to the loader: : at an end is the working directory.
run()
{
    # The files of a RoCE adapter are shown by functions that come before the C library's.
    run_files=
    wished IWARP_PERSONA
    [ "$run_value" != roce ] || run_preload=1 run_files=:$run_lib/libiwarp-files.so
    if [ $run_sockets = 1 ]; then
        run_preload=1 run_files=$run_files:$run_lib/librspreload.so
        more_numbers
    fi
    if [ $run_preload = 0 ]; then
        ask_loader
        for run_name in libibverbs.so.1 librdmacm.so.1; do
            resolve $run_name
            [ -z "$run_file" ] || is_ours $run_name "$run_file" || run_preload=1
        done
    fi
    ! privileged || printf 'iwarp-run: warning: %s is %s: the loader may ignore what is asked for\n' \
        "$run_path" "$run_why" >&2
    LD_LIBRARY_PATH=$run_library_path
    export LD_LIBRARY_PATH
    if [ $run_preload = 1 ]; then
        # Blanks separate names there, and there is no way to write one.
        case $run_lib in
        *[[:space:]]*) fail 125 "$run_lib: a path with a blank cannot be in LD_PRELOAD" ;;
        esac
        [ ! -e "$run_lib/libibverbs.so.1" ] || run_files=:$run_lib/libibverbs.so.1:$run_lib/librdmacm.so.1$run_files
        LD_PRELOAD=${run_files#:}${LD_PRELOAD:+:$LD_PRELOAD}
        export LD_PRELOAD
    fi
    unset IWARP_RUN_INSIDE
    exec "$run_program" "$@"
}

run_preload=0 run_sockets=0 run_fake=0 run_mode=run run_from=$PWD
run_tab='	'
run_newline='
'
find_self
run_inside=
[ "${IWARP_RUN_INSIDE-}" != $$ ] || run_inside=1
# What is left is kept whole for the second start.
for run_word; do
    case $run_word in
    --fake-sys) [ -n "$run_inside" ] || run_fake=1 ;;
    -*) ;;
    *) break ;;
    esac
    [ "$run_word" != -- ] || break
done
[ $run_fake = 0 ] || enter_namespaces "$@"

while [ $# -gt 0 ]; do
    case $1 in
    --preload) run_preload=1 ;;
    --sockets) run_sockets=1 ;;
    --check) run_mode=check ;;
    --fake-sys) run_fake=1 ;;
    --help | -h)
        usage || exit 125
        exit
        ;;
    --version | -V)
        echo "iwarp-run (libiwarp) $run_version" || exit 125
        exit
        ;;
    --)
        shift
        break
        ;;
    --*=*)
        run_name=${1%%=*}
        setting "${run_name#--}" "${1#*=}"
        ;;
    -*) fail 125 "$1: no such option; see iwarp-run --help" ;;
    *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || fail 125 'which program? See iwarp-run --help'

run_program=$1
shift
find_libraries
find_program "$run_program"
run_library_path=$run_lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
[ $run_mode = run ] || check
[ $run_fake = 0 ] || fake_sys
run "$@"
