# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Cells with op=nvmf: the guest's kernel as a host of NVMe over RDMA (nvme_rdma, told what to do by
# nvme-cli), and on the host iwarp-nvmf with a file and memory as disks.  The guest makes a partition
# and a file system, copies a tree of size octets in count files, leaves, comes back, checks the file
# system and compares.
nvmf_subsystem=nqn.2014-08.org.example:disks
nvmf_host_name=nqn.2014-08.org.example:host
nvmf_host="--hostnqn=$nvmf_host_name --hostid=6b2f6c0e-7c1d-4f43-9d53-0a4e8f1c2d77"

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
            --listen "$host_address:$port" "$@"
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
nvmf_subsystem=$nvmf_subsystem
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
    disk=/dev/\$(disk 1)
    has \$disk
}
# disk NSID: its name; Linux 6.12 looks at namespaces all at once, so that any of them may be nvme0n1
disk()
{
    for i in \$(seq 300); do
        grep -lx "\$1" /sys/block/nvme*n*/nsid 2>/dev/null | cut -d / -f 4 | grep -E '^nvme[0-9]+n' && return 0
        sleep 0.1
    done
    echo "there is no namespace \$1" >&2; return 1
}
leave()
{
    nvme disconnect -n $nvmf_subsystem
    for i in \$(seq 100); do [ -e \$disk ] || return 0; sleep 0.1; done
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
printf ',,L\n' | sfdisk -q \$disk
has \${disk}p1
mkfs.ext4 -q -F \${disk}p1
mkdir -p /mnt/disk /tmp/tree
for i in \$(seq $3); do head -c \$(($2 / $3)) /dev/urandom >/tmp/tree/\$i; done
mount \${disk}p1 /mnt/disk
echo "== $3 files, and the programs of the guest, copied"
cp -a /tmp/tree /usr/sbin /mnt/disk/
sync
umount /mnt/disk
echo "== nvme disconnect, nvme connect"
leave
come
has \${disk}p1 # it comes behind its disk
echo "== fsck, and all files compared"
fsck.ext4 -f -n \${disk}p1
mount -o ro \${disk}p1 /mnt/disk
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
mkfs.ext4 -q -F \$disk
mkdir -p /mnt/disk
mount \$disk /mnt/disk
touch /ctl/going
rounds=0
until [ -e /ctl/enough ]; do
    fio --name=load --filename=/mnt/disk/load --size=4M --bs=4k --rw=randwrite --direct=1 --fsync=32 \\
        --ioengine=libaio --iodepth=8 --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=\$rounds \\
        --allrandrepeat=0 --minimal >/tmp/fio.log || { cat /tmp/fio.log; dmesg | tail -n 30; exit 1; }
    rounds=\$((rounds + 1))
done
umount /mnt/disk
fsck.ext4 -f -n \$disk
leave
echo "\$rounds rounds of fio"
echo the same
END
}

# nvmf_ask PORT: what the guest does that asks all that nvme-cli can ask, has each I/O command done by
# hand, and watches the disks change below its file system
nvmf_ask()
{
    nvmf_guest "$1"
    cat <<'END'
# said WORDS COMMAND...: WORDS are to be a part of what it says (a regular expression), else it is wrong
wrong=0
said()
{
    local words=$1 out
    shift
    printf '\n-- %s\n' "$*" >>/ctl/nvme-cli
    if ! out=$("$@" 2>&1); then
        printf -- '-- %s\n%s\nWRONG: the status\n' "$*" "$out"
        wrong=1
    elif ! grep -qiE -- "$words" <<<"$out"; then
        printf -- '-- %s\n%s\nWRONG: not said: %s\n' "$*" "$out" "$words"
        wrong=1
    fi
    echo "$out" >>/ctl/nvme-cli
}
# refused WORDS COMMAND...: the same of one that fails
refused()
{
    local words=$1
    shift
    said "$words" not "$@"
}
not() { ! "$@"; }
# sectors N DISK: the disk has so many, soon
sectors()
{
    for i in $(seq 100); do [ "$(cat /sys/block/$2/size 2>/dev/null)" != "$1" ] || return 0; sleep 0.1; done
    echo "$2 has not $1 sectors: $(cat /sys/block/$2/size)"; return 1
}
gone() { for i in $(seq 100); do [ -e "/sys/block/$1" ] || return 0; sleep 0.1; done; return 1; }
# step NAME: the host does what it has to do now
step() { touch "/ctl/$1"; has "/ctl/$1.done"; }
# A cell that is repeated must not find what this one has left.
trap 'status=$?; [ $status = 0 ] || { dmesg | tail -n 20; umount -l /mnt/disk; nvme disconnect-all; } >&2; exit $status' EXIT

nvme connect $at -n $nvmf_subsystem --nr-io-queues=2 --keep-alive-tmo=5
d=/dev/nvme0 n=/dev/$(disk 1) z=/dev/$(disk 2)
has $n
has $z
echo "== what nvme-cli asks"
said 'mn *: libiwarp' nvme id-ctrl $d
said 'Data Set Management Supported' nvme id-ctrl $d -H
said 'ieee *: 0' nvme id-ctrl $d
said 'nsze *: 0x4000' nvme id-ns $n
said 'Data Size: 4096 bytes' nvme id-ns $n -H
said 'Data Size: 512 bytes.*in use' nvme id-ns $z -H
said 'uuid *: ' nvme ns-descs $n
said '0x2' nvme list-ns $d
said 'rdma traddr' nvme list-subsys
said "${z##*/}" nvme list -v
said 'media_errors[[:space:]]*: 0' nvme smart-log $d
said 'error_count' nvme error-log $d -e 4
said '0400: 01 00 00 00 03 00 00 00 01 00' nvme get-log $d -i 5 -l 4096
said 'frs1' nvme fw-log $d
said 'value: (0x)?10400' nvme get-property $d --offset=0x8
said 'Maximum Queue Entries Supported.*: 128' nvme get-property $d --offset=0 -H
said 'value: (0x)?1$' nvme get-property $d --offset=0x1c
said '' nvme changed-ns-list-log $d
for f in 0x01 0x02 0x05 0x06 0x07 0x0a 0x0b 0x0f; do said 'Current value' nvme get-feature $d -f $f -H; done
said 'Number of IO Submission Queues Allocated' nvme get-feature $d -f 7 -H
echo "== I/O commands"
head -c 8192 /dev/urandom >/tmp/two
said 'Success' nvme write $n -s 5 -c 1 -z 8192 -d /tmp/two
said 'Success' nvme read $n -s 5 -c 1 -z 8192 -d /tmp/back
cmp /tmp/two /tmp/back
said 'Success' nvme compare $n -s 5 -c 1 -z 8192 -d /tmp/two
refused 'COMPARE_FAILED|Compare Failure|compare' nvme compare $n -s 6 -c 1 -z 8192 -d /tmp/two
said 'Success' nvme verify $n -s 0 -c 100
said 'Success' nvme flush $n -n 1
said 'Success' nvme write-zeroes $n -s 5 -c 0
said 'Success' nvme dsm $n -n 1 -d -s 6 -b 1
nvme read $n -s 5 -c 1 -z 8192 -d /tmp/back
cmp -n 8192 /dev/zero /tmp/back
refused 'LBA_RANGE|LBA Out of Range' nvme read $n -s 16384 -c 0 -z 4096 -d /tmp/back
refused 'INVALID_OPCODE|Invalid Command Opcode' nvme resv-report $n
refused 'INVALID_OPCODE|Invalid Command Opcode' nvme resv-register $n --nrkey=1
refused 'INVALID_OPCODE|Invalid Command Opcode' nvme resv-acquire $n --crkey=1
refused 'INVALID_OPCODE|Invalid Command Opcode' nvme format $n --force
refused 'INVALID_OPCODE|Invalid Command Opcode' nvme device-self-test $d -n 1 -s 1
refused 'INVALID_LOG|Invalid Log Page' nvme get-log $d -i 7 -l 512
said 'error_count.*: [1-9]' nvme error-log $d -e 1
echo "== a file system, whose disk changes below it"
mkfs.ext4 -q -F $n
mkdir -p /mnt/disk
mount $n /mnt/disk
head -c 1000000 /dev/urandom >/mnt/disk/file
sync
cp /mnt/disk/file /tmp/file
cat /mnt/disk/file >/dev/null
step grow
sectors 262144 ${n##*/}
echo "grown, while mounted"
step add
r=/dev/$(disk 3)
has $r
[ "$(cat /sys/block/${r##*/}/ro)" = 1 ]
refused . dd if=/tmp/two of=$r bs=4096 count=1 oflag=direct
echo "another disk is there, which cannot be written"
step remove
gone ${z##*/}
gone ${r##*/}
echo "both are gone; the file system:"
echo 3 >/proc/sys/vm/drop_caches
cmp /tmp/file /mnt/disk/file
umount /mnt/disk
fsck.ext4 -f -n $n
mount $n /mnt/disk
step vanish
gone ${n##*/}
cat /mnt/disk/file >/dev/null && echo "the page cache has it" || echo "input/output error"
umount /mnt/disk || umount -l /mnt/disk
echo "the disk of a mounted file system has vanished, and the host lives:"
said 'nn *: 256' nvme id-ctrl $d
nvme disconnect -n $nvmf_subsystem
rm -f /tmp/file /tmp/two /tmp/back
[ $wrong = 1 ] || echo the same
END
}

# A secret of the host and one of the target, as `nvme gen-dhchap-key` prints them.
nvmf_secret_host=DHHC-1:01:AgkQFx4lLDM6QUhPVl1ka3J5gIeOlZyjqrG4v8bN1Nuz7TWq:
nvmf_secret_target=DHHC-1:02:AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj6vH4/wYNFBsiKTA3PkVMRdxyRQ==:

# nvmf_prove PORT: what the guest does at a target that wants to see its secret
nvmf_prove()
{
    nvmf_guest "$1"
    cat <<END
refused()
{
    if nvme connect \$at -n $nvmf_subsystem --nr-io-queues=2 "\$@"; then echo "not refused: \$*"; exit 1; fi
}
echo "== without a secret"
refused
# A kernel without DH-HMAC-CHAP (Debian 12's 6.1) ends here: nobody gets in with it.
if grep -q ^nvme_auth /proc/modules; then
    nvme check-dhchap-key --key=$nvmf_secret_host
    nvme check-dhchap-key --key=$nvmf_secret_target
    echo "== with another one's secret"
    refused --dhchap-secret=$nvmf_secret_target
    echo "== with the right one, but the target is to have another one"
    refused --dhchap-secret=$nvmf_secret_host --dhchap-ctrl-secret=$nvmf_secret_host
    echo "== with the right one"
    come --dhchap-secret=$nvmf_secret_host
    leave
    echo "== with both, and data"
    come --dhchap-secret=$nvmf_secret_host --dhchap-ctrl-secret=$nvmf_secret_target
    dd if=/dev/urandom of=/tmp/data bs=1M count=4 status=none
    dd if=/tmp/data of=\$disk bs=64k oflag=direct status=none
    dd if=\$disk of=/tmp/back bs=64k count=64 iflag=direct status=none
    cmp /tmp/data /tmp/back
    leave
    dmesg | grep -i 'nvme.*authenticated' || true
    echo proved
else
    echo "this kernel knows no secrets"
fi
echo the same
END
}

# nvmf_config NAMESPACE...
nvmf_config()
{
    local IFS=,
    printf '{"subsystems": [{"nqn": "%s", "namespaces": [%s]}]}\n' $nvmf_subsystem "$*" >"$work/end/config"
}

# nvmf_changes: does what the guest asks for by its steps
nvmf_changes()
{
    local disk='{"disk": "disk", "nsid": 1}' ram='{"disk": "ram:16M", "nsid": 2, "block": 512}' step
    for step in grow add remove vanish; do
        eventually nvmf_asks $step || return 1
        case $step in
        grow) truncate -s 128M "$work/end/disk" ;;
        add) nvmf_config "$disk" "$ram" '{"disk": "ram:1M", "nsid": 3, "read_only": true}' ;;
        remove) nvmf_config "$disk" ;;
        vanish) nvmf_config ;;
        esac
        kill -HUP "$host_pid"
        touch "$ctl/$step.done"
    done
}

nvmf_asks()
{
    [ -e "$ctl/$1" ] || ! guest_lives || [ -e "$ctl/$guest_number.status" ]
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
        nvmf_serve "$port" "$log" --nqn $nvmf_subsystem --ns disk || return 1
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
    rm -rf "$work/end" "$ctl"/{going,enough,grow,add,remove,vanish,*.done,nvme-cli}
    if [ -n "$(value within "$words")" ]; then
        nvmf_inside "$port" "$seconds" "$(value within "$words")"
        return
    fi
    if [ "$(value changes "$words" 0)" = 1 ]; then
        mkdir "$work/end"
        truncate -s 64M "$work/end/disk"
        nvmf_config '{"disk": "disk", "nsid": 1}' '{"disk": "ram:16M", "nsid": 2, "block": 512}'
        nvmf_serve "$port" "$log" --config config
        guest_begin "$seconds" "$(nvmf_ask "$port")"
        nvmf_changes
    elif [ "$(value secret "$words" 0)" = 1 ]; then
        mkdir "$work/end"
        (umask 077 && echo "${nvmf_host_name} $nvmf_secret_host $nvmf_secret_target" >"$work/end/secrets")
        nvmf_serve "$port" "$log" --nqn $nvmf_subsystem --ns disk --secrets secrets
        guest_begin "$seconds" "$(nvmf_prove "$port")"
    elif [ "$kills" = 0 ]; then
        nvmf_record=1 nvmf_serve "$port" "$log" --nqn $nvmf_subsystem --ns disk --ns ram:64M
        guest_begin "$seconds" "$(nvmf_use "$port" "$(value size "$words")" "$(value count "$words")")"
    else
        nvmf_serve "$port" "$log" --nqn $nvmf_subsystem --ns disk
        guest_begin "$seconds" "$(nvmf_write "$port")"
        eventually test -e "$ctl/going" && nvmf_kill "$kills" "$port" "$log"
        touch "$ctl/enough"
    fi
    guest_end
    kill "$host_pid"
    wait "$host_pid"
    we_says="status=$? killed=$([ "$nvmf_killed" = "$kills" ] && echo all || echo "$nvmf_killed") $(grep -q 'iwarp-nvmf: .*queue [0-9]*:' "$log" || echo orderly)"
}
