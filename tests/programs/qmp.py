# SPDX-License-Identifier: BSD-2-Clause
"""qmp.py SOCKET COMMAND [ARGUMENTS]: one command of QEMU's machine protocol; prints the answer."""
import json
import socket
import sys

connection = socket.socket(socket.AF_UNIX)
connection.settimeout(60)
connection.connect(sys.argv[1])
stream = connection.makefile("rw")
stream.readline()
arguments = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
for command in ({"execute": "qmp_capabilities"}, {"execute": sys.argv[2], "arguments": arguments}):
    stream.write(json.dumps(command) + "\n")
    stream.flush()
    while True:
        answer = json.loads(stream.readline())
        if "return" in answer or "error" in answer:
            break
print(json.dumps(answer))
sys.exit("error" in answer)
