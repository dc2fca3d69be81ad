# SPDX-License-Identifier: BSD-2-Clause
#
# libfabric's verbs provider, which looks at every address but those of loopback.

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

try "fi_info -p verbs" libfabric fi_info_verbs
try "fi_pingpong -p verbs -e msg, all sizes" libfabric pingpong verbs msg
try "fi_pingpong -p verbs;ofi_rxm -e rdm, all sizes" libfabric pingpong 'verbs;ofi_rxm' rdm
