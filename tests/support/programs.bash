# SPDX-License-Identifier: BSD-2-Clause
#
# For tests that run programs of the distribution on our libibverbs and librdmacm: sourced by
# tests/programs/run and tests/scripts/rdma-programs.sh.  Installs the library into a folder of the
# test ($work/iwarp), starts programs from there as an ordinary user that may lock no memory, finds
# free ports, and ends what is left of each case by process id.
#
# Waits are for loaded machines: up to $patience seconds for what takes milliseconds on others, and so
# long may a program run.
: "${BUILD:?where the build is}"
patience=180
top=$PWD
. tests/support/skips.bash
logs=$BUILD/program-logs
# Not in TMPDIR, which may be closed to others.
work=$(mktemp -d /tmp/programs-XXXXXX) || exit 1
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
unset LD_LIBRARY_PATH LD_PRELOAD
export IWARP_CONFIG=
rm -rf "$logs"
mkdir -p "$logs" "$work/iwarp" "$work/home"

# The installed tree is what is tested; a build tree may be where others cannot look.
if ! make -s install PREFIX="$work/iwarp" >"$logs/install.log" 2>&1; then
    cat "$logs/install.log"
    exit 1
fi
run=$work/iwarp/bin/iwarp-run

# Root becomes nobody.
ulimit -l 0
user=()
if [ "$(id -u)" = 0 ]; then
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chown 65534:65534 "$work/home"
fi
export HOME=$work/home

passed=0 failed=0 skipped=0
failures=() unsteady=()

# free_port: one of 20000 to 29999 that nobody uses, another one each time
next_port=$((20000 + $$ % 9000))
free_port()
{
    local used
    used=$(awk 'FNR > 1 { n = split($2, a, ":"); print a[n] }' /proc/net/tcp /proc/net/tcp6 2>/dev/null)
    while next_port=$((next_port + 1)) && grep -qi "^$(printf %04X $next_port)$" <<<"$used"; do :; done
    port=$next_port
}

# build_count: the judge of captures, which knows nothing of src/
build_count()
{
    if ! gcc -std=c11 -O2 -I. -o "$work/count" tests/programs/count.c \
        dissector/{crc,frame,header,setup}.c; then
        echo "tests/programs/count.c does not compile"
        exit 1
    fi
    chmod 755 "$work/count"
}

# listens PORT: somebody does
listens()
{
    awk -v port=":$(printf %04X "$1")\$" '$4 == "0A" && $2 ~ port { found = 1 } END { exit !found }' \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# eventually COMMAND...: succeeds in time
eventually()
{
    local i
    for ((i = 0; i < patience * 10; i++)); do
        ! "$@" || return 0
        sleep 0.1
    done
    echo "waited $patience s in vain for: $*"
    return 1
}

# --- inside a case ---

children=()

# bring FILE: of the tree, into the folder of the case: users of r may not be let into the tree
bring() { cp "$top/$1" . && chmod 644 "${1##*/}"; }

# r PROGRAM...: runs it; RUN is options of iwarp-run
r()
{
    echo "+ $*" >&2
    # shellcheck disable=SC2086 # options
    "${user[@]}" timeout -k 5 "${limit:-$patience}" "$run" ${RUN-} "$@" </dev/null
}

# start NAME PROGRAM...: in the background; output in NAME.out; sets pid
start()
{
    local name=$1
    shift
    echo "+ $* (in the background)" >&2
    # shellcheck disable=SC2086 # options
    "${user[@]}" timeout -k 5 "${limit:-$patience}" "$run" ${RUN-} "$@" </dev/null >"$name.out" 2>&1 &
    pid=$!
    children+=("$pid")
}

ended()
{
    ! kill -0 "$1" 2>/dev/null
}

listens_or_ended()
{
    listens "$1" || ended "$2"
}

# ready NAME PORT: the process just started listens there
ready()
{
    eventually listens_or_ended "$2" "$pid" && listens "$2" && return
    echo "$1 does not listen on port $2:"
    tail -n 5 "$1.out"
    return 1
}

# finishes PID NAME: by itself, with status 0
finishes()
{
    local status
    eventually ended "$1" || return 1
    wait "$1"
    status=$?
    [ $status = 0 ] && return
    echo "$2 ended with status $status:"
    tail -n 10 "$2.out"
    return 1
}

# says TEXT FILE: it is there
says()
{
    grep -q -- "$1" "$2" && return
    echo "\"$1\" is not in $2:"
    tail -n 20 "$2"
    return 1
}

# counted EXPECTED... -- CAPTURE...: lines of tests/programs/count, and nothing wrong
counted()
{
    local line
    local -a expected=()
    while [ "$1" != -- ]; do
        expected+=("$1")
        shift
    done
    shift
    "$work/count" "$@" >count.out || { echo "$*: wrong"; cat count.out; return 1; }
    for line in "${expected[@]}"; do
        grep -qx -- "$line" count.out || { echo "no line \"$line\":"; head -n 30 count.out; return 1; }
    done
}

# carried SIDE OCTETS CAPTURE...: RDMA Writes of that side (c: it connected) carried so many octets or more, and
# nothing in the captures is wrong
carried()
{
    local side=$1 octets=$2
    shift 2
    "$work/count" "$@" >count.out || { echo "$*: wrong"; cat count.out; return 1; }
    awk -v side="$side" -v octets="$octets" '$1 == side && $2 == "Write" { sum += $3 * $4 }
        END { print side, "wrote", sum + 0, "octets"; exit !(sum >= octets) }' count.out
}

end_case()
{
    local pid
    for pid in "${children[@]}"; do
        kill -TERM "$pid" 2>/dev/null
        kill -CONT -- "-$pid" 2>/dev/null # if it was stopped
    done
    for pid in "${children[@]}"; do
        wait "$pid"
    done 2>/dev/null
}

# --- a case ---

# once FUNCTION ARGUMENT...: in an empty directory
once()
{
    free_port
    rm -rf "$work/case"
    mkdir -m 777 "$work/case"
    (
        cd "$work/case" || exit 1
        trap end_case EXIT
        "$@"
    )
}

# try NAME FUNCTION ARGUMENT...: one line; status 77 of the function skips, its last line says why.
# AGAIN=REASON: the program can fail by its own fault, and may be tried a second time.  With CI=true
# (as .ci/run sets it) each may, as in tests/run; `sum` names those that needed it.
try()
{
    local name=$1 again=${AGAIN-} log start status word note='' seconds
    shift
    if [ -n "${ONLY-}" ] && [[ $name != *$ONLY* ]]; then
        return
    fi
    log=$logs/$(tr -c 'A-Za-z0-9.\n-' '_' <<<"$name").log
    start=${EPOCHREALTIME/./}
    once "$@" >"$log" 2>&1
    status=$?
    if [ "${CI-}" = true ] && [ -z "$again" ]; then
        again="it ended with $status, $(tail -n 1 "$log" | cut -c 1-120)"
    fi
    if [ -n "$again" ] && [ $status != 0 ] && [ $status != 77 ]; then
        note="at the second try: $again"
        once "$@" >>"$log" 2>&1
        status=$?
    fi
    seconds=$(((${EPOCHREALTIME/./} - start) / 100000))
    case $status in
    0)
        word=ok passed=$((passed + 1))
        [ -z "$note" ] || unsteady+=("$name: $note")
        ;;
    77)
        note=$(tail -n 1 "$log")
        if is_known_skip "programs:$name"; then
            word=skip skipped=$((skipped + 1))
        else
            word=FAIL failed=$((failed + 1)) failures+=("$name") note="skipped, but not in tests/skips.txt: $note"
        fi
        ;;
    *) word=FAIL failed=$((failed + 1)) failures+=("$name") ;;
    esac
    printf '%-4s %-58s %4d.%d s  %s\n' $word "$name" $((seconds / 10)) $((seconds % 10)) "$note"
    if [ $word = FAIL ]; then
        cat "$work"/case/*.out >>"$log" 2>/dev/null
        tail -n 25 "$log" | cut -c 1-200 | sed 's/^/    /'
    fi
}

# sum: the closing lines; the status of all
sum()
{
    printf '\n'
    [ ${#unsteady[@]} = 0 ] || printf 'unsteady: %s\n' "${unsteady[@]}"
    [ ${#failures[@]} = 0 ] || printf 'failed: %s\n' "${failures[@]}"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ] && [ $((passed + skipped)) -gt 0 ]
}

# --- libfabric, and what is on it ---

# The first such address of this machine
outer_address()
{
    ip -4 -o addr show up scope global 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }'
}

# libfabric FUNCTION ARGUMENT...: if the machine has what libfabric asks for
address=$(outer_address)
libfabric()
{
    [ -n "$address" ] || { echo "no address but those of loopback, which libfabric leaves aside"; return 77; }
    # libfabric connects by the name of the machine, which may be in no /etc/hosts.
    if [ "$1" != fi_info_verbs ] && ! getent hosts "$HOSTNAME" >/dev/null; then
        echo "this machine's own name, $HOSTNAME, has no address, which libfabric asks for"
        return 77
    fi
    "$@"
}
