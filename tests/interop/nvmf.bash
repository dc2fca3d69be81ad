# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Cells with op=nvmf: the guest's kernel as a host of NVMe over RDMA (nvme_rdma, told what to do by
# nvme-cli), and on the host iwarp-nvmf with a file and memory as disks.  The guest makes a partition
# and a file system, copies a tree of size octets in count files, leaves, comes back, checks the file
# system and compares.
nvmf_subsystem=nqn.2014-08.org.example:disks
nvmf_host="--hostnqn=nqn.2014-08.org.example:host --hostid=6b2f6c0e-7c1d-4f43-9d53-0a4e8f1c2d77"

# nvmf_serve PORT LOG [OPTION...]: starts the target in $work/end; sets host_pid
nvmf_serve()
{
    local port=$1 log=$2
    shift 2
    mkdir -p "$work/end"
    [ -e "$work/end/disk" ] || truncate -s 256M "$work/end/disk"
    (
        cd "$work/end" || exit 1
        exec env ${nvmf_record+"IWARP_PCAP=$work/end/%p.pcapng"} "$BUILD/bin/iwarp-nvmf" \
            --listen "$host_address:$port" --nqn $nvmf_subsystem --ns disk "$@"
    ) >>"$log" 2>&1 </dev/null &
    host_pid=$!
    eventually host_listens "$port"
}

# What the guest needs of functions.
nvmf_guest()
{
    cat <<END
set -e
modprobe -a nvme_rdma ext4
at="-t rdma -a $host_address -s $1 $nvmf_host"
# has FILE: waits for it
has()
{
    for i in \$(seq 300); do [ ! -e "\$1" ] || return 0; sleep 0.1; done
    echo "there is no \$1"; return 1
}
come()
{
    nvme connect \$at -n $nvmf_subsystem --nr-io-queues=2 --keep-alive-tmo=5 --reconnect-delay=1 "\$@"
    has /dev/nvme0n1
}
leave()
{
    nvme disconnect -n $nvmf_subsystem
    for i in \$(seq 100); do [ -e /dev/nvme0n1 ] || return 0; sleep 0.1; done
    return 1
}
END
}

# nvmf_use PORT SIZE COUNT: what the guest does
nvmf_use()
{
    nvmf_guest "$1"
    cat <<END
echo "== nvme discover"
nvme discover \$at
echo "== nvme connect"
come
nvme list
echo "== a partition, and ext4 on it"
printf ',,L\n' | sfdisk -q /dev/nvme0n1
has /dev/nvme0n1p1
mkfs.ext4 -q -F /dev/nvme0n1p1
mkdir -p /mnt/disk /tmp/tree
for i in \$(seq $3); do head -c \$(($2 / $3)) /dev/urandom >/tmp/tree/\$i; done
mount /dev/nvme0n1p1 /mnt/disk
echo "== $3 files, and the programs of the guest, copied"
cp -a /tmp/tree /usr/sbin /mnt/disk/
sync
umount /mnt/disk
echo "== nvme disconnect, nvme connect"
leave
come
echo "== fsck, and all files compared"
fsck.ext4 -f -n /dev/nvme0n1p1
mount -o ro /dev/nvme0n1p1 /mnt/disk
diff -r /tmp/tree /mnt/disk/tree
for i in /usr/sbin/*; do [ -h "\$i" ] || cmp "\$i" "/mnt/disk/sbin/\${i##*/}"; done
umount /mnt/disk
rm -rf /tmp/tree
leave
echo the same
END
}

# nvmf_write PORT: what the guest does while the target is killed
nvmf_write()
{
    nvmf_guest "$1"
    cat <<END
come --ctrl-loss-tmo=600
mkfs.ext4 -q -F /dev/nvme0n1
mkdir -p /mnt/disk
mount /dev/nvme0n1 /mnt/disk
touch /ctl/going
rounds=0
until [ -e /ctl/enough ]; do
    fio --name=load --filename=/mnt/disk/load --size=4M --bs=4k --rw=randwrite --direct=1 --fsync=32 \\
        --ioengine=libaio --iodepth=8 --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=\$rounds \\
        --allrandrepeat=0 --minimal >/tmp/fio.log || { cat /tmp/fio.log; dmesg | tail -n 30; exit 1; }
    rounds=\$((rounds + 1))
done
umount /mnt/disk
fsck.ext4 -f -n /dev/nvme0n1
leave
echo "\$rounds rounds of fio"
echo the same
END
}

# nvmf_hosts LOG: how often a host has come
nvmf_hosts()
{
    grep -c 'has nqn' "$1"
}

nvmf_came_back()
{
    [ "$(nvmf_hosts "$1")" -gt "$2" ] || ! guest_lives || [ -e "$ctl/$guest_number.status" ]
}

# nvmf_kill KILLS PORT LOG
nvmf_kill()
{
    local kills=$1 port=$2 log=$3 i before
    for ((i = 0; i < kills; i++)); do
        before=$(nvmf_hosts "$log")
        sleep $((RANDOM % 3)).$((RANDOM % 10))
        kill -KILL "$host_pid"
        wait "$host_pid" 2>/dev/null
        nvmf_serve "$port" "$log" || return 1
        eventually nvmf_came_back "$log" "$before" || return 1
    done
    nvmf_killed=$kills
}

# nvmf_run WORDS PORT SECONDS LOG: as program_run
nvmf_run()
{
    local words=$1 port=$2 seconds=$3 log=$4 kills nvmf_killed=0
    kills=$(value kills "$words" 0)
    if [ "$kills" != 0 ] && [ -n "${NVMF_KILLS-}" ]; then
        seconds=$((seconds + NVMF_KILLS * 10)) kills=$NVMF_KILLS
    fi
    rm -rf "$work/end" "$ctl/going" "$ctl/enough"
    if [ "$kills" = 0 ]; then
        nvmf_record=1 nvmf_serve "$port" "$log" --ns ram:64M
        guest_begin "$seconds" "$(nvmf_use "$port" "$(value size "$words")" "$(value count "$words")")"
    else
        nvmf_serve "$port" "$log"
        guest_begin "$seconds" "$(nvmf_write "$port")"
        eventually test -e "$ctl/going" && nvmf_kill "$kills" "$port" "$log"
        touch "$ctl/enough"
    fi
    guest_end
    kill "$host_pid"
    wait "$host_pid"
    we_says="status=$? killed=$([ "$nvmf_killed" = "$kills" ] && echo all || echo "$nvmf_killed") $(grep -q 'iwarp-nvmf: .*queue [0-9]*:' "$log" || echo orderly)"
}
