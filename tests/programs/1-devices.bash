# SPDX-License-Identifier: BSD-2-Clause
#
# What shows devices: ibv_devices, ibv_devinfo, ibv_asyncwatch.

devices()
{
    r ibv_devices >devices.out && says '^ *iwarp0[[:space:]]*[0-9a-f]\{16\}$' devices.out &&
        ! grep -q '0000000000000000$' devices.out
}

devinfo()
{
    r ibv_devinfo -v >devinfo.out && says 'hca_id:[[:space:]]*iwarp0$' devinfo.out &&
        says 'transport:[[:space:]]*iWARP (1)' devinfo.out &&
        says 'state:[[:space:]]*PORT_ACTIVE (4)' devinfo.out &&
        says 'link_layer:[[:space:]]*Ethernet' devinfo.out
}

watching()
{
    grep -q 'async event FD' watch.out || ended "$pid"
}

poser()
{
    RUN=--persona=roce r ibv_devinfo -v >poser.out && says 'transport:[[:space:]]*InfiniBand (0)' poser.out &&
        says 'link_layer:[[:space:]]*Ethernet' poser.out && says 'iWARP posing as RoCE' poser.out
}

# It prints a line and waits for events, of which there are none.
asyncwatch()
{
    start watch stdbuf -oL ibv_asyncwatch
    eventually watching && says 'iwarp0: async event FD' watch.out && sleep 1 && ! ended "$pid" &&
        [ "$(wc -l <watch.out)" = 1 ]
}

try "ibv_devices" devices
try "ibv_devinfo -v" devinfo
try "ibv_asyncwatch" asyncwatch
try "ibv_devinfo, as a RoCE adapter" poser
