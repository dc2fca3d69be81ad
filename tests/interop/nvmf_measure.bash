# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# tests/interop/run --measure nvmf: three targets of NVMe over Fabrics in the guest, one after another, each
# with the same file in the guest's memory and the guest's kernel as the host: the kernel's nvmet over
# TCP and over siw, and iwarp-nvmf, whose host uses siw, too.  fio on the block device; without and with
# CRCs (of nvmet over TCP: header and data digests).  Rounds in turn, of which the middle one counts.

# Rows: what fio does, octets of a request, requests at a time, unit.
nvmf_rows="randread:4k:1 randread:4k:8 randread:4k:64 randwrite:4k:1 randwrite:4k:8 randwrite:4k:64
    read:128k:8 write:128k:8 read:1m:8 write:1m:8 verify:4k:8"

# nvmf_target WHO CRC PORT: what the guest does to have it, with /tmp/disk
nvmf_target()
{
    local who=$1 crc=$2 port=$3 type=rdma
    if [ "$who" = iwarp ]; then
        cat <<END
cd /tmp
$(on_ours /tmp/host/iwarp-nvmf) --listen $guest_address:$port --nqn $nvmf_subsystem --ns /tmp/disk \\
    $([ "$crc" = 1 ] || echo --no-crc) >/tmp/target.log 2>&1 &
target=\$!
target_end() { kill \$target; wait \$target; }
for i in \$(seq 100); do grep -q 'listens on' /tmp/target.log && break; sleep 0.1; done
END
        return
    fi
    [ "$who" = siw ] || type=tcp
    cat <<END
modprobe -a configfs nvmet nvmet_$type
[ -d /sys/kernel/config/nvmet ] || mount -t configfs none /sys/kernel/config
t=/sys/kernel/config/nvmet s=\$t/subsystems/$nvmf_subsystem
mkdir \$s \$s/namespaces/1 \$t/ports/1
echo 1 >\$s/attr_allow_any_host
echo -n /tmp/disk >\$s/namespaces/1/device_path
echo 1 >\$s/namespaces/1/buffered_io
echo 1 >\$s/namespaces/1/enable
echo $type >\$t/ports/1/addr_trtype
echo ipv4 >\$t/ports/1/addr_adrfam
echo $guest_address >\$t/ports/1/addr_traddr
echo $port >\$t/ports/1/addr_trsvcid
ln -s \$s \$t/ports/1/subsystems/
target_end()
{
    rm \$t/ports/1/subsystems/*
    echo 0 >\$s/namespaces/1/enable
    rmdir \$t/ports/1 \$s/namespaces/1 \$s
}
END
}

# nvmf_measure_guest WHO CRC PORT: prints "row ROW FIGURE" lines, thousands of IOPS or MB/s
nvmf_measure_guest()
{
    local type=rdma digests= rows=$nvmf_rows
    [ "$1" != tcp ] || type=tcp
    [ "$1:$2" != tcp:1 ] || digests="--hdr-digest --data-digest"
    # nvmet_tcp of Linux 6.1 ends in a BUG (usercopy) when 1 MiB is written to it within one machine.
    [ "$1" != tcp ] || rows=${rows/write:1m:8/}
    cat <<END
set -e
modprobe nvme_$type
truncate -s 64M /tmp/disk
$(nvmf_target "$1" "$2" "$3")
trap 'status=\$?; nvme disconnect-all; target_end; rm -f /tmp/disk; [ \$status = 0 ] || { cat /tmp/target.log; dmesg | tail; }' EXIT
nvme connect -t $type -a $guest_address -s $3 -n $nvmf_subsystem --nr-io-queues=2 --keep-alive-tmo=30 $digests
for i in \$(seq 300); do [ ! -e /dev/nvme0n1 ] || break; sleep 0.1; done
dd if=/dev/urandom of=/dev/nvme0n1 bs=1M count=64 oflag=direct 2>/dev/null
for row in $(echo $rows); do
    IFS=: read -r rw size depth <<<"\$row"
    more="--time_based --runtime=$nvmf_seconds"
    [ \$rw != verify ] || { rw=randwrite more="--size=16M --verify=crc32c --verify_fatal=1 --do_verify=1"; }
    fio --name=row --filename=/dev/nvme0n1 --ioengine=libaio --direct=1 --rw=\$rw --bs=\$size --iodepth=\$depth \\
        \$more --minimal >/tmp/fio.out
    # Version 3 of the terse form: of reads KiB/s and IOPS are fields 7 and 8, of writes 48 and 49.
    awk -F ';' -v row=\$row '\$1 == 3 { w = row ~ /rand|verify/ ? 1 : 0; k = row ~ /:4k:/
        bw = row ~ /read/ ? \$7 : \$48; io = row ~ /read/ ? \$8 : \$49
        printf "row %s %.3f\n", row, k ? io / 1000 : bw * 1024 / 1e6 }' /tmp/fio.out
done
END
}

# nvmf_ratio A B
nvmf_ratio()
{
    awk -v a="${1:-}" -v b="${2:-}" 'BEGIN { print a == "" || b == "" || b == 0 ? "-" : sprintf("%.2f", a / b) }'
}

nvmf_measure()
{
    local nvmf_seconds=${NVMF_SECONDS:-2} round who crc one figure port=4500 title unit
    local -A all=()
    host_programs && cp "$BUILD/bin/iwarp-nvmf" "$ctl/host/" || return 1
    ldd "$BUILD/bin/iwarp-nvmf" | grep -o '/[^ ]*' | while read -r one; do cp -n "$one" "$ctl/host/"; done
    # With the loopback device's MTU of 65536 siw sends ULPDUs of 65474 octets, which is more than RFC 5044
    # allows (64768), and which libiwarp refuses.
    guest_does 60 'rm -rf /tmp/host; cp -r /ctl/host /tmp/; ip link set lo mtu 64000' || return 1
    row "# $rounds rounds in turn, $nvmf_seconds s each, the median counts; target and host share the guest's 2 processors"
    for crc in 0 1; do
        environment=" mpa_crc_required=$crc"
        environment_apply || return 1
        for ((round = 0; round < rounds; round++)); do
            for who in tcp siw iwarp; do
                port=$((port + 1))
                guest_begin 300 "$(nvmf_measure_guest $who $crc $port)"
                if ! guest_end; then
                    row "FAIL $who crc=$crc"
                    tail -n 20 "$guest_log"
                    failed=$((failed + 1))
                    return 1
                fi
                while read -r _ one figure; do
                    all[$who $crc $one]+=$figure$'\n'
                done < <(grep '^row ' "$guest_log")
            done
        done
        row ""
        row "# $([ $crc = 1 ] && echo "CRC32c; over TCP header and data digests" || echo "without CRC")"
        row "$(printf '%-30s %9s %9s %9s  %9s %9s' '' nvmet-tcp nvmet-siw libiwarp we:siw we:tcp)"
        for one in $nvmf_rows; do
            unit="MB/s"
            [[ $one != *:4k:* ]] || unit="kIOPS"
            IFS=: read -r title figure who <<<"$one"
            title="$title $figure, $who at a time, $unit"
            passed=$((passed + 1))
            local -A of=()
            for who in tcp siw iwarp; do
                of[$who]=$(median "$who $crc $one")
            done
            row "$(printf '%-30s %9s %9s %9s  %9s %9s' "$title" "${of[tcp]:--}" "${of[siw]}" "${of[iwarp]}" \
                "$(nvmf_ratio "${of[iwarp]}" "${of[siw]}")" "$(nvmf_ratio "${of[iwarp]}" "${of[tcp]}")")"
        done
    done
}
