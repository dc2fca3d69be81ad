# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# The guest of tests/interop/run: started, told what to do, stopped.  Uses $work, a folder of the
# run, and $images, where tests/interop/guest-build has put the guest.
guest_pid=
guest_number=0
guest_address=10.77.0.11
host_address=10.77.0.1
lwip_address=10.78.0.2 lwip_router=10.78.0.1

# The network is a namespace of its own, with the guest at the other end of a tap device.  At another
# one there may be libiwarp on lwIP (section() in cell.bash): the kernel is the router between the two,
# and believes each new Ethernet address at once.
network()
{
    ip link set lo up &&
        ip tuntap add tap0 mode tap &&
        ip link set tap0 mtu 9000 up &&
        ip addr add $host_address/24 dev tap0 &&
        ip tuntap add tap1 mode tap &&
        ip link set tap1 up &&
        ip addr add $lwip_router/24 dev tap1 &&
        echo 0 >/proc/sys/net/ipv4/neigh/tap1/locktime &&
        echo 1 >/proc/sys/net/ipv4/ip_forward
}

# /dev/kvm alone is not enough: the processor has to have it, too.
accelerator()
{
    if [ -w /dev/kvm ] && grep -qE '^flags.* (vmx|svm)( |$)' /proc/cpuinfo; then
        echo kvm
    else
        echo tcg,thread=multi
    fi
}

guest_lives()
{
    [ -n "$guest_pid" ] && kill -0 "$guest_pid" 2>/dev/null
}

guest_crashed()
{
    grep -qE 'kernel BUG|Oops|Kernel panic' "$work/console.log"
}

# Boots it; false, with the end of its console, when it does not come up.
guest_start()
{
    local accel model=max i
    accel=$(accelerator)
    [ "$accel" != kvm ] || model=host
    ctl=$work/ctl
    dump=$work/all.pcap
    rm -rf "$ctl" "$dump" "$work/channel.in" "$work/channel.out"
    mkdir -p "$ctl"
    mkfifo "$work/channel.in" "$work/channel.out"
    cp "$BUILD/interop/siw-peer" "$ctl/"
    qemu-system-x86_64 -nodefaults -no-reboot -display none -M q35 -accel "$accel" -cpu $model \
        -smp 2 -m 768 -kernel "$images/vmlinux" -initrd "$images/initrd.cpio" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on net.ifnames=0 \
guest.ip=$guest_address/24 guest.gw=$host_address" \
        -serial "file:$work/console.log" \
        -netdev tap,id=n0,ifname=tap0,script=no,downscript=no \
        -device virtio-net-pci,netdev=n0,mac=52:54:00:77:00:11,host_mtu=9000,romfile= \
        -object "filter-dump,id=d0,netdev=n0,file=$dump,maxlen=70000" \
        -device virtio-serial-pci -chardev "pipe,id=c0,path=$work/channel" \
        -device virtconsole,chardev=c0 -device virtio-rng-pci \
        -virtfs "local,path=$ctl,mount_tag=ctl,security_model=none" \
        >"$work/qemu.log" 2>&1 </dev/null &
    guest_pid=$!
    for ((i = 0; i < 1800; i++)); do
        [ ! -e "$ctl/ready" ] || break
        guest_lives || break
        sleep 0.1
    done
    if ! [ -e "$ctl/ready" ]; then
        echo "the guest does not come up:"
        tail -n 15 "$work/qemu.log" "$work/console.log"
        guest_stop
        return 1
    fi
    guest_number=0
    guest_does 30 'cp /ctl/siw-peer /usr/bin/ && rdma link show siw0/1'
}

# Octets in front of each packet of the dump: a header of the tap device, which newer versions of QEMU
# (10 of Debian 13) leave out.  With it, an address of Ethernet is where the type is without.
dump_header()
{
    case $(od -An -tx1 -j $((24 + 16 + 12)) -N 2 "$dump") in
    ' 08 00' | ' 08 06' | ' 86 dd') echo 0 ;;
    *) echo 12 ;;
    esac
}

guest_stop()
{
    local i
    [ -n "$guest_pid" ] || return 0
    if guest_lives; then
        timeout 1 bash -c 'echo halt >"$1"' - "$work/channel.in"
        for ((i = 0; i < 50; i++)); do
            guest_lives || break
            sleep 0.1
        done
        ! guest_lives || kill -KILL "$guest_pid"
    fi
    wait "$guest_pid" 2>/dev/null
    guest_pid=
}

# guest_begin SECONDS COMMAND: starts it, in at most that time; its output goes to $guest_log
guest_begin()
{
    local seconds=$1
    shift
    guest_number=$((guest_number + 1))
    guest_log=$ctl/$guest_number.log
    : >"$guest_log"
    printf 'timeout -k 2 %s bash -c %q\n' "$seconds" "$*" >"$ctl/$guest_number.sh"
    guest_until=$((SECONDS + seconds + 10))
    timeout 10 bash -c 'echo "$1" >"$2"' - "$guest_number" "$work/channel.in"
}

# Waits for what was begun last, and has its exit status; 125: the guest does not answer.
guest_end()
{
    until [ -e "$ctl/$guest_number.status" ]; do
        if ! guest_lives || [ $SECONDS -gt $guest_until ]; then
            return 125
        fi
        sleep 0.05
    done
    return "$(cat "$ctl/$guest_number.status")"
}

guest_does()
{
    local status
    guest_begin "$@"
    guest_end
    status=$?
    cat "$guest_log"
    return $status
}
