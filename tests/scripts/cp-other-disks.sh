#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 1800
#
# All the other scripts about iwarp-cp once more, on file systems without O_TMPFILE: where the system
# call is refused (tests/preload), and on a FUSE mount (bindfs).  There an unfinished copy has a name.
# That takes minutes; without SLOW=1 only those scripts run that such a name matters to most.
set -u
if [ -z "${own_mounts-}" ] && unshare -m true 2>/dev/null; then
    own_mounts=1 exec unshare -m "$0"
fi

# can_bindfs: sets why if not
can_bindfs()
{
    local probe status
    why=
    if ! command -v bindfs >/dev/null; then
        why="bindfs is not installed"
    elif [ -z "${own_mounts-}" ] || [ ! -e /dev/fuse ]; then
        why="no mount namespace of its own, or no FUSE"
    else
        probe=$(mktemp -d)
        mkdir "$probe/real" "$probe/mount"
        bindfs "$probe/real" "$probe/mount" >"$probe/log" 2>&1
        status=$?
        umount -l "$probe/mount" 2>/dev/null
        [ $status = 0 ] || why=$(head -n 1 "$probe/log")
        rm -rf "$probe"
    fi
    [ -z "$why" ]
}

# run_on KIND SCRIPT: its lines, with both in front of each name
run_on()
{
    local name=${2##*/} status last
    name="$1, ${name%.sh}"
    CP_DISK=$1 "$2" >"$log/$1.out" 2>&1
    status=$?
    sed -E "s/^((not )?ok [0-9]+ - )/\\1$name: /" "$log/$1.out"
    if [ $status = 77 ]; then
        last=$(tail -n 1 "$log/$1.out")
        echo "ok 1 - $name # SKIP $last"
        echo "1..1"
    elif [ $status != 0 ] && ! grep -q '^not ok' "$log/$1.out"; then
        echo "not ok 1 - $name: exit status $status"
        echo "1..1"
    fi
}

# run_all KIND
run_all()
{
    local script
    if [ "$1" = bindfs ] && ! can_bindfs; then
        echo "ok 1 - bindfs # SKIP $why"
        echo "1..1"
        return
    fi
    for script in tests/scripts/cp-*.sh; do
        case ${SLOW-}:$script in
        1:* | *:*/cp-copy.sh | *:*/cp-same-name.sh | *:*/cp-killed.sh) ;;
        *) continue ;;
        esac
        case $1:$script in
        *:*/cp-other-disks.sh) continue ;;
        *:*/cp-large.sh) continue ;; # 9 GB, and nothing in it but sizes
        bindfs:*/cp-idle.sh | bindfs:*/cp-capture.sh) continue ;; # of processors and packets
        esac
        run_on "$1" "$script"
    done
}

# Both at the same time, for most of their time is waiting.
log=$(mktemp -d) || exit 1
trap 'rm -rf "$log"' EXIT
run_all no-tmpfile >"$log/no-tmpfile" 2>&1 &
run_all bindfs >"$log/bindfs" 2>&1 &
wait
cat "$log/no-tmpfile" "$log/bindfs"
! grep -q '^not ok' "$log/no-tmpfile" "$log/bindfs"
