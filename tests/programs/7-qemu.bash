# SPDX-License-Identifier: BSD-2-Clause
#
# Live migration of a running guest of QEMU.

counts()
{
    [ "$(wc -l <"$1")" -gt "$2" ]
}

migrated()
{
    status=$(/usr/bin/python3 qmp.py from.qmp query-migrate | sed -n 's/.*"status": "\([a-z-]*\)".*/\1/p')
    [ "$status" = completed ] || [ "$status" = failed ]
}

# The guest counts, and checks 64 KiB that it writes each time (tests/programs/guest.S): on the other
# side it goes on where it was, and no number is missing or comes twice.
migration()
{
    local common from
    as --32 -o guest.o "$top/tests/programs/guest.S" &&
        ld -m elf_i386 -Ttext 0x7c00 --oformat binary -o guest.img guest.o || return 1
    truncate -s 1474560 guest.img
    bring tests/programs/qmp.py && chmod 644 guest.img
    common="-accel tcg -M pc -nodefaults -m 64 -display none
        -drive if=floppy,format=raw,readonly=on,file=guest.img"
    # shellcheck disable=SC2086 # options
    start to qemu-system-x86_64 $common -serial file:to.serial -qmp unix:to.qmp,server=on,wait=off \
        -incoming "rdma:127.0.0.1:$port"
    ready to "$port" || return 1
    # shellcheck disable=SC2086
    start from qemu-system-x86_64 $common -serial file:from.serial -qmp unix:from.qmp,server=on,wait=off
    from=$pid
    eventually test -s from.serial && eventually counts from.serial 20 || return 1
    "${user[@]}" /usr/bin/python3 qmp.py from.qmp migrate "{\"uri\": \"rdma:127.0.0.1:$port\"}" &&
        eventually migrated && echo "migration $status" && [ "$status" = completed ] || return 1
    eventually test -s to.serial && eventually counts to.serial 20 || return 1
    /usr/bin/python3 qmp.py to.qmp query-status
    /usr/bin/python3 qmp.py to.qmp query-status | grep -q '"running": true' || return 1
    "${user[@]}" /usr/bin/python3 qmp.py to.qmp quit
    "${user[@]}" /usr/bin/python3 qmp.py from.qmp quit
    finishes "$from" from || return 1
    # Lines may be cut in two by the move.
    cat from.serial to.serial | while read -r number; do printf '%d\n' "0x$number"; done | awk '
        { n = $1 }
        NR > 1 && n != last + 1 { print "after " last " comes " $0; bad = 1 }
        { last = n }
        END { print NR " lines"; exit bad || NR < 40 }'
}

try "QEMU, migration over rdma:" migration
