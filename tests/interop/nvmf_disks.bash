# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Cells with op=nvmf and within=: iwarp-nvmf runs in the guest, too, on disks that only a kernel can have
# (device mapper), and the guest's kernel is its host, over siw and the guest's own address.

# nvmf_within PORT DISK...: what the guest does to have the target and to come to it
nvmf_within()
{
    local port=$1
    shift
    nvmf_guest "$port"
    cat <<END
at="-t rdma -a $guest_address -s $port $nvmf_host"
modprobe -a siw dm_mod
# siw sends more than RFC 5044 allows where the MTU is larger.
ip link set lo mtu 64000
target=
serve()
{
    $(on_ours /tmp/host/iwarp-nvmf) --listen $guest_address:$port --nqn $nvmf_subsystem $(printf -- '--ns %s ' "$@") >>/tmp/target.log 2>&1 &
    target=\$!
    for i in \$(seq 100); do ! grep -q 'listens on' /tmp/target.log || return 0; sleep 0.1; done
    return 1
}
END
    cat <<'END'
target_ends() { [ -z "$target" ] || { kill $target 2>/dev/null; wait $target; echo "target status=$?"; target=; }; }
trap 'status=$?
    set +e
    [ $status = 0 ] || { cat /tmp/target.log; dmesg | tail -n 20; }
    rm -f /tmp/goes-on
    umount -l /mnt/disk /mnt/small 2>/dev/null
    nvme disconnect-all
    target_ends
    for i in log faulty; do dmsetup remove --retry $i 2>/dev/null; done
    rmmod brd
    ip link set lo mtu 65536
    rm -rf /tmp/target.log /tmp/tree /tmp/file /tmp/back
    [ $status != 0 ] || echo the same
    exit $status' EXIT
END
}

# Power is lost: all writes of the disk are logged, and the disk is made anew from the log as it was sure
# to be at each of some moments.  What the file system on it was told to keep until then has to be there.
nvmf_power()
{
    nvmf_within "$1" /dev/dm-0 # no udev gives it its name here
    cat <<'END'
modprobe dm_log_writes
mkdir -p /mnt/disk /tmp/tree
modprobe brd rd_nr=2 rd_size=$((192 * 1024))
dmsetup create log --table "0 $((48 * 2048)) log-writes /dev/ram0 /dev/ram1"
serve
come
mkfs.ext4 -q -F -J size=4 $disk
mount $disk /mnt/disk
steps=12
for i in $(seq $steps); do
    head -c $((i * 30011)) /dev/urandom >/tmp/tree/$i
    cp /tmp/tree/$i /mnt/disk/$i
    # Others write as well, and nobody waits for that.
    head -c 500000 /dev/urandom >/mnt/disk/other
    if [ $((i % 2)) = 0 ]; then sync -f /mnt/disk; else sync /mnt/disk/$i; fi
    dmsetup message log 0 mark step$i
done
umount /mnt/disk
leave
target_ends
dmsetup remove --retry log
for i in $(seq $steps); do
    echo "== power lost after step $i: $(replay /dev/ram1 /dev/ram0 step$i)"
    mount /dev/ram0 /mnt/disk # the journal is played back
    for j in $(seq $i); do cmp /tmp/tree/$j /mnt/disk/$j; done
    umount /mnt/disk
    fsck.ext4 -f -n /dev/ram0
done
END
}

# Disks that fail, in part or altogether, and come back, and one that is full; another disk of the same host
# is written and verified all the while.
nvmf_faults()
{
    nvmf_within "$1" /dev/dm-0 /mnt/small/full ram:16M
    cat <<'END'
modprobe dm_flakey
modprobe brd rd_nr=1 rd_size=$((32 * 1024))
sectors=$((32 * 2048))
dmsetup create faulty --table "0 $sectors linear /dev/ram0 0"
# faulty TABLE: from now on it is that
faulty() { dmsetup suspend --nolockfs faulty; echo "0 $sectors $1" | dmsetup load faulty; dmsetup resume faulty; }
mkdir -p /mnt/small
mount -t tmpfs -o size=6m small /mnt/small
truncate -s 16M /mnt/small/full
serve
come
full=/dev/$(disk 2) other=/dev/$(disk 3)
has $full
has $other
# refused WORDS COMMAND...: it fails, and says so
refused()
{
    local words=$1 said
    shift
    ! said=$("$@" 2>&1) || { echo "not refused: $*"; return 1; }
    grep -qiE "$words" <<<"$said" || { echo "of $* was said: $said"; return 1; }
}
failed='input/output error|no data available' # the second is what Linux makes of a medium error
reads() { dd if=$1 of=/tmp/back bs=64k count=16 iflag=direct status=none && cmp /tmp/file /tmp/back; }
writes() { dd if=/tmp/file of=$1 bs=64k oflag=direct status=none; }
head -c 1048576 /dev/urandom >/tmp/file
touch /tmp/goes-on
while [ -e /tmp/goes-on ]; do
    fio --name=other --filename=$other --bs=4k --rw=randwrite --direct=1 --ioengine=libaio --iodepth=4 \
        --size=2M --verify=crc32c --verify_fatal=1 --do_verify=1 --minimal >/tmp/fio.log || exit 1
done &
undisturbed=$!
writes $disk
reads $disk
echo "== all of it fails"
faulty error
refused "$failed" reads $disk
refused "$failed" writes $disk
faulty "linear /dev/ram0 0"
echo "== it is back"
reads $disk
echo "== writes fail, reads do not"
faulty "flakey /dev/ram0 0 0 3600 1 error_writes"
reads $disk
refused "$failed" writes $disk
faulty "linear /dev/ram0 0"
writes $disk
reads $disk
nvme smart-log ${disk%n*} | grep 'media_errors[[:space:]]*: [1-9]'
nvme error-log ${disk%n*} -e 1 | grep 'error_count.*: [1-9]'
echo "== another disk is full"
writes $full
refused 'no space left' dd if=/dev/zero of=$full bs=64k seek=16 count=160 oflag=direct status=none
reads $full
nvme dsm $full -n 2 -d -s 256 -b 2560 # and has room again
dd if=/tmp/file of=$full bs=64k seek=32 oflag=direct status=none
echo "== and a third was not disturbed"
rm /tmp/goes-on
wait $undisturbed
END
}

# nvmf_inside PORT SECONDS KIND: sets we_says, leaves the guest to guest_end
nvmf_inside()
{
    mkdir -p "$ctl/host"
    cp /lib64/ld-linux-x86-64.so.2 "$ctl/host/ld.so"
    cp "$BUILD/bin/iwarp-nvmf" "$BUILD/interop/replay" "$ctl/host/"
    ldd "$BUILD/bin/iwarp-nvmf" | grep -o '/[^ ]*' | while read -r one; do cp -n "$one" "$ctl/host/"; done
    guest_does 60 'rm -rf /tmp/host; cp -r /ctl/host /tmp/; cp /tmp/host/replay /usr/bin/'
    guest_begin "$2" "$("nvmf_$3" "$1")"
    guest_end
    we_says=$(grep -o '^target status=.*' "$guest_log" | cut -d ' ' -f 2)
}
