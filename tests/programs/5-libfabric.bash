# SPDX-License-Identifier: BSD-2-Clause
#
# libfabric's verbs provider, which looks at every address but those of loopback.

# The first such address of this machine
outer_address()
{
    ip -4 -o addr show up scope global 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }'
}

fi_info_verbs()
{
    r fi_info -p verbs >info.out && says 'provider: verbs' info.out &&
        says 'fabric: Ethernet-iWARP' info.out && says 'domain: iwarp0' info.out &&
        says 'protocol: FI_PROTO_IWARP' info.out
}

# pingpong PROVIDER TYPE
pingpong()
{
    local limit=300
    start server fi_pingpong -p "$1" -e "$2" -S all -c -B "$port"
    ready server "$port" &&
        r fi_pingpong -p "$1" -e "$2" -S all -c -P "$port" "$address" >client.out &&
        says '^1m *10 ' client.out && finishes "$pid" server
}

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
try "fi_info -p verbs" libfabric fi_info_verbs
try "fi_pingpong -p verbs -e msg, all sizes" libfabric pingpong verbs msg
try "fi_pingpong -p verbs;ofi_rxm -e rdm, all sizes" libfabric pingpong 'verbs;ofi_rxm' rdm
