#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# tests/interop/siw-edit changes each place that it is to change, and fails, with the file's name, when
# one is not there: a guest with an unchanged driver would be judged as a changed one.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
n=0 failed=0
switches="zcopy_tx try_gso loopback_enabled mpa_crc_required mpa_crc_strict siw_tcp_nagle peer_to_peer"

# What is edited of the driver, and no more.
sources()
{
    local one
    : >"$work/siw.h"
    echo 'u_char mpa_version = MPA_REVISION_2;' >"$work/siw_main.c"
    for one in $switches; do
        echo "extern const bool $one;" >>"$work/siw.h"
        echo "const bool $one;" >>"$work/siw_main.c"
    done
    printf '%s\n' 'int siw_accept(struct iw_cm_id *id)' '{' \
        $'\tif (bad)\n\t\tgoto error;' \
        $'\trv = siw_send_mpareqrep(cep, params->private_data, 0);' \
        $'\tsiw_qp_socket_assoc(cep, qp);' \
        $'\tsiw_cep_set_free(cep);\n\n\treturn 0;' 'error:' $'\treturn rv;' '}' \
        'int siw_other(void)' '{' $'\tsiw_cep_set_free(cep);\n\n\treturn 0;' '}' >"$work/siw_cm.c"
}

result()
{
    n=$((n + 1))
    if [ "$1" = 0 ]; then
        echo "ok $n - $2"
    else
        failed=1
        echo "not ok $n - $2"
    fi
}

# refused NAME FILE SED: without what sed takes out of it the file is refused
refused()
{
    local said status
    sources
    sed -i "$3" "$work/$2"
    said=$(tests/interop/siw-edit "$work" 2>&1)
    status=$?
    [ $status != 0 ] && [[ $said == *"$2 is not as expected"* ]]
    result $? "$1: $status, $said"
}

sources
tests/interop/siw-edit "$work"
result $? "all places are found"
! grep -q 'const bool' "$work"/*.[ch]
result $? "nothing is constant"
[ "$(grep -c '^module_param(' "$work/siw_main.c")" = 9 ]
result $? "nine parameters"
[ "$(grep -A 1 'siw_look_again(cep);' "$work/siw_cm.c")" = $'\tsiw_look_again(cep);\n\tsiw_cep_set_free(cep);' ]
result $? "looked again once, before the connection's lock is released"

for one in $switches; do
    refused "no $one" siw_main.c "/$one/d"
    refused "$one is not declared" siw.h "/$one/d"
done
refused "no mpa_version" siw_main.c /mpa_version/d
refused "no Reply" siw_cm.c /siw_send_mpareqrep/d
refused "no callback" siw_cm.c /siw_qp_socket_assoc/d
refused "no success" siw_cm.c '1,/^}/s/return 0/return rv/'
# Then the race is mended, and look_again would not tell a difference.
refused "the callback comes before the Reply" siw_cm.c '/siw_qp_socket_assoc/d; /bad/i\
\tsiw_qp_socket_assoc(cep, qp);'
echo "1..$n"
exit $failed
