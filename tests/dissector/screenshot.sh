#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# tests/dissector/screenshot.sh CAPTURE FRAME PICTURE.png
#
# Wireshark with the plugin and its profile, without a screen: CAPTURE, with FRAME selected, as a
# picture. As an ordinary user, since root is given no personal plugins. Fails on any warning, if
# Wireshark ends by itself, and if it has not loaded the plugin.
set -eu
capture=$1 frame=$2 picture=$3
: "${BUILD:?where the build is}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/home/wireshark/profiles/iWARP" "$work/run"
cp dissector/profile/* "$work/home/wireshark/profiles/iWARP/"
# No question about the name of the machine or a newer version at the start.
printf 'gui.update.enabled: FALSE\ngui.ask_unsaved: FALSE\n' \
    >>"$work/home/wireshark/profiles/iWARP/preferences"
# Widths, so that what there is to see is seen.
cat >"$work/home/wireshark/profiles/iWARP/recent" <<'END'
gui.geometry_main_upper_pane: 330
gui.geometry_main_lower_pane: 930
column.width: %m, 60, %t, 80, %s, 85, %d, 85, %p, 150, %Cus:iwarp.rdmap.opcode:0:R, 150, %Cus:iwarp.ddp.stag:0:R, 95, %Cus:iwarp.ddp.to:0:R, 155, %Cus:iwarp.ddp.msn:0:R, 45, %Cus:iwarp.ddp.payload_len:0:R, 60, %Cus:iwarp.rdmap.time:0:R, 110, %i, 500
END
cat >"$work/home/wireshark/recent_common" <<'END'
gui.geometry_main_x: 0
gui.geometry_main_y: 0
gui.geometry_main_width: 1500
gui.geometry_main_height: 1000
END
cp "$capture" "$work/capture.pcap"
cp -r "$BUILD/dissector" "$work/plugins"
chmod -R a+rX "$work"
as_user=()
if [ "$(id -u)" = 0 ]; then
    as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    chown -R 65534 "$work/home" "$work/run"
fi
chmod 700 "$work/run"

cat >"$work/session" <<'END'
wireshark -C iWARP -r "$1/capture.pcap" -g "$2" 2>"$1/home/errors" &
wireshark=$!
window=
for ((i = 0; i < 120; i++)); do
    sleep 1
    window=$(xdotool search --onlyvisible --name capture.pcap 2>/dev/null | tail -n 1)
    [ -z "$window" ] || break
done
sleep 5 # it is still reading its settings
xdotool windowmove "$window" 0 0 windowsize "$window" 1500 1000 windowfocus "$window"
sleep 5
xdotool mousemove 100 503 click 1 # the fifth line of the details is ours
sleep 2
xdotool key --window "$window" shift+Right # expands it
sleep 10                                   # until it has drawn everything
grep -q 'iwarp\.so$' "/proc/$wireshark/maps" || echo "warning: no plugin" >>"$1/home/errors"
import -window root "$1/home/picture.png"
kill "$wireshark" || echo "warning: Wireshark ended by itself" >>"$1/home/errors"
wait "$wireshark"
true
END
HOME=$work/home XDG_CONFIG_HOME=$work/home XDG_RUNTIME_DIR=$work/run QT_QPA_PLATFORM=xcb \
    WIRESHARK_PLUGIN_DIR=$work/plugins WIRESHARK_ABORT_ON_DISSECTOR_BUG=1 LC_ALL=C.UTF-8 \
    "${as_user[@]}" timeout 240 xvfb-run -a -s '-screen 0 1500x1000x24' \
    bash "$work/session" "$work" "$frame"
if grep -iE 'warning|critical|iwarp' "$work/home/errors"; then
    echo "Wireshark warns" >&2
    exit 1
fi
convert "$work/home/picture.png" +dither -colors 64 -define png:compression-level=9 "$picture"
