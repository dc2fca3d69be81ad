# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Cells with op=iser: the guest's kernel as an initiator of iSCSI over RDMA (ib_iser, logged in by
# open-iscsi), and on the host the distribution's target tgtd, unchanged, over our libibverbs and
# librdmacm.  The guest writes count blocks of size octets to the disk by direct I/O, which the
# target gets by RDMA Reads, and reads them back, by RDMA Writes; both ends compare.
iser_target=iqn.2026-01.example:disk
iser_initiator=iqn.2026-01.example:initiator
tgt=$beside/usr/sbin

# The target is not installed, since that would start it.
iser_admin()
{
    TGT_IPC_SOCKET=$work/end/control timeout -k 2 20 "$tgt/tgtadm" --lld iser "$@"
}

iser_answers()
{
    iser_admin --mode sys --op show >/dev/null 2>&1 || ! kill -0 "$host_pid" 2>/dev/null
}

# iser_serve PORT LOG: starts it, with a disk of 16 MiB.  It asks for an address and a name of who
# may log in, and for a portal of iSCSI on TCP, which nobody uses.
iser_serve()
{
    local port=$1 log=$2
    TGT_IPC_SOCKET=$work/end/control program_end "$tgt/tgtd -f -C 0 --iscsi portal=127.0.0.1:$((port + 2000)) --iser port=$port" 120 "$log"
    truncate -s 16M "$work/end/disk"
    eventually iser_answers && eventually host_listens "$port" &&
        iser_admin --mode target --op new --tid 1 --targetname $iser_target &&
        iser_admin --mode logicalunit --op new --tid 1 --lun 1 --backing-store "$work/end/disk" &&
        iser_admin --mode target --op bind --tid 1 --initiator-address ALL &&
        iser_admin --mode target --op bind --tid 1 --initiator-name $iser_initiator
}

# iser_use PORT SIZE COUNT: what the guest does
iser_use()
{
    cat <<END
set -e
modprobe -a ib_iser sd_mod
mkdir -p /etc/iscsi /run/lock/iscsi /var/lib/iscsi
echo InitiatorName=$iser_initiator >/etc/iscsi/initiatorname.iscsi
echo node.startup = manual >/etc/iscsi/iscsid.conf
[ -n "\$(pidof iscsid)" ] || { iscsid -f >/tmp/iscsid.log 2>&1 & }
for i in \$(seq 300); do ! grep -q ISCSIADM /proc/net/unix || break; sleep 0.1; done
node="-m node -T $iser_target -p $host_address:$1"
iscsiadm \$node -o new -I iser
trap 'set +e; cat /tmp/iscsid.log; iscsiadm \$node -u; iscsiadm \$node -o delete' EXIT
iscsiadm \$node -l
for i in \$(seq 300); do [ ! -b /dev/sda ] || break; sleep 0.1; done
cd /tmp
dd if=/dev/urandom of=blocks bs=$2 count=$3
dd if=blocks of=/dev/sda bs=$2 count=$3 oflag=direct
dd if=/dev/sda of=back bs=$2 count=$3 iflag=direct
cmp blocks back
cp blocks /ctl/
echo the same
END
}

# iser_run WORDS PORT SECONDS LOG: as program_run
iser_run()
{
    local words=$1 port=$2 seconds=$3 log=$4 size count
    size=$(value size "$words" 65536) count=$(value count "$words" 20)
    if ! iser_serve "$port" "$log" >>"$work/start.log" 2>&1; then
        echo "the target cannot be set up" >>"$log"
    fi
    guest_begin "$seconds" "$(iser_use "$port" "$size" "$count")"
    guest_end
    we_says="blocks=wrong"
    ! cmp -n $((size * count)) "$ctl/blocks" "$work/end/disk" >>"$log" 2>&1 || we_says="blocks=right"
    rm -f "$ctl/blocks"
    # tgtd has no other way to end; the capture is written as it goes.
    { kill "$host_pid"; wait "$host_pid"; } 2>/dev/null
}
