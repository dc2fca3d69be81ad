# SPDX-License-Identifier: BSD-2-Clause
#
# For the end-to-end tests of iwarp-cp: sourced by tests/scripts/cp-*.sh.  Gives a directory of its
# own ($work), starts and ends servers by process id, and reports each check as a line of TAP.
# Needs BUILD; everything is on loopback.
#
# CP_DISK says what the files of the test are on: nothing (what TMPDIR is on), `no-tmpfile` (the same,
# but O_TMPFILE is refused, see tests/preload) or `bindfs` (a FUSE mount; the caller must have a mount
# namespace of its own, so that no mount can be left behind).
#
# Nothing is left running, whatever becomes of the script: every process of it works below $work, and
# a watcher ends those, by process id, when the script itself was killed.
#
# Machines under load take their time: waits here are up to $patience seconds for what takes
# milliseconds on others.
: "${BUILD:?where the build is}"
cp=$(realpath "$BUILD/bin/iwarp-cp")
place=$(realpath "$(mktemp -d "${TMPDIR:-/tmp}/cp-XXXXXX")") || exit 1
work=$place
case ${CP_DISK-} in
'') ;;
no-tmpfile) LD_PRELOAD=$(realpath "$BUILD/tests/preload/no_tmpfile.so") && export LD_PRELOAD || exit 1 ;;
bindfs)
    work=$place/mount
    mkdir "$place/real" "$work" && bindfs "$place/real" "$work" || exit 1
    ;;
*) echo "CP_DISK=$CP_DISK: no such kind" && exit 2 ;;
esac
patience=90
children=()
checks=0
bad=0

# at_work: sets left to the processes that work below $work, but this one
at_work()
{
    local pid
    left=()
    while read -r pid; do
        [ "$pid" = $$ ] || left+=("$pid")
    done < <(cd / && find /proc -maxdepth 2 -path '/proc/[0-9]*/cwd' -lname "$work*" \
        -printf '%h\n' 2>/dev/null | sed 's,/proc/,,')
}

# end_all: ends them, and those that they start meanwhile
end_all()
{
    local i
    for ((i = 0; i < 50; i++)); do
        at_work
        [ ${#left[@]} != 0 ] || return 0
        kill -KILL "${left[@]}"
        # Those of others cannot be waited for.
        wait "${left[@]}" || sleep 0.1
    done 2>/dev/null
}

none_at_work()
{
    at_work
    [ ${#left[@]} = 0 ] || { ps -o pid,args -p "${left[*]}"; return 1; }
}

# remove_work: everything that was made, the mount first
remove_work()
{
    cd / || return
    [ "$work" = "$place" ] || umount -l "$work"
    rm -rf "$place"
}

cleanup()
{
    end_all
    kill -KILL -- "-$watcher" 2>/dev/null
    remove_work
}

# In a session of its own, for a timeout kills the whole process group.
export work place
export -f at_work end_all remove_work
# shellcheck disable=SC2016 # expanded by the watcher
setsid bash -c 'cd / || exit
    while kill -0 "$1"; do sleep 1; done
    end_all
    remove_work' watcher $$ </dev/null >/dev/null 2>&1 &
watcher=$!
disown
trap cleanup EXIT
trap 'exit 1' INT TERM
cd "$work" || exit 1

# check NAME COMMAND...: one line of TAP
check()
{
    local name=$1
    shift
    checks=$((checks + 1))
    if "$@" >check.log 2>&1; then
        echo "ok $checks - $name"
    else
        echo "not ok $checks - $name"
        bad=$((bad + 1))
        sed 's/^/# /' check.log | head -n 30
        [ ! -s client.err ] || sed 's/^/# client: /' client.err | head -n 10
        [ ! -s server.err ] || sed 's/^/# server: /' server.err | head -n 10
    fi
}

# skip NAME REASON
skip()
{
    checks=$((checks + 1))
    echo "ok $checks - $1 # SKIP $2"
}

# finish: the last check and the end
finish()
{
    local pid
    for pid in "${children[@]}"; do
        kill -KILL "$pid" && wait "$pid"
    done 2>/dev/null
    check "no process of this test is left" eventually none_at_work
    echo "1..$checks"
    [ $bad = 0 ]
    exit
}

# serve OPTION... DIR: sets server (process id) and address
serve()
{
    local i
    : >server.out
    "$cp" serve --listen "${listen-127.0.0.1:0}" "$@" >server.out 2>server.err &
    server=$!
    children+=("$server")
    for ((i = 0; i < patience * 10; i++)); do
        address=$(sed -n 's/^listening on //p' server.out)
        [ -z "$address" ] || return 0
        sleep 0.1
    done
    echo "# no server: $(cat server.err)"
    return 1
}

# stop: ends the server in order; its exit status
stop()
{
    kill -TERM "$server" && wait_for "$server"
}

# eventually COMMAND...: succeeds within the time that a loaded machine may take
eventually()
{
    local i
    for ((i = 0; i < patience * 10; i++)); do
        ! "$@" || return 0
        sleep 0.1
    done
    return 1
}

# receives PID: the process has an unfinished copy open
receives()
{
    find "/proc/$1/fd" '(' -lname "$work/*(deleted)" -o -lname "$work/*/.iwarp-cp.*" ')' 2>/dev/null |
        grep -q .
}

# wait_for PID: its exit status
wait_for()
{
    local i
    for ((i = 0; i < patience * 10; i++)); do
        if ! kill -0 "$1" 2>/dev/null; then
            wait "$1"
            return
        fi
        sleep 0.1
    done
    echo "process $1 did not end"
    return 99
}

# fails STATUS REGEX COMMAND...: ends with that status and exactly one line of that kind
fails()
{
    local want=$1 text=$2 status
    shift 2
    timeout "${limit:-$patience}" "$@" >client.out 2>client.err
    status=$?
    if [ $status != "$want" ]; then
        echo "exit status $status, not $want"
        return 1
    fi
    if ! grep -E '^iwarp-cp: .+: .+; .' client.err | grep -Eq -- "$text" || [ "$(wc -l <client.err)" != 1 ]; then
        echo "not one line like: $text"
        return 1
    fi
}

# succeeds COMMAND...: with nothing on standard error
succeeds()
{
    timeout "${limit:-$((2 * patience))}" "$@" >client.out 2>client.err && [ ! -s client.err ]
}

# same_tree A B: names, contents, permission bits and times of files and directories
same_tree()
{
    list_tree "$1" >a.list && list_tree "$2" >b.list && diff a.list b.list && diff -r "$1" "$2"
}

list_tree()
{
    (cd "$1" && find . -printf '%P %y %m %T@\0' | sort -z | tr '\0' '\n')
}

# entries DIR: what is there, without the hidden names of unfinished copies
entries()
{
    ls -A -I '.iwarp-cp.*' "$1"
}

# no_leftovers DIR: nothing there but complete files
no_leftovers()
{
    [ -z "$(find "$1" -name '.iwarp-cp*' -print -quit)" ]
}
