#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A message to and fro with pyverbs and librdmacm (python3-pyverbs), on no hardware:

    build/bin/iwarp-run python3 examples/python/hello.py server &
    build/bin/iwarp-run python3 examples/python/hello.py client 127.0.0.1
"""
import sys

from pyverbs.cmid import CMID, AddrInfo
from pyverbs.qp import QPCap, QPInitAttr

try:
    from pyverbs.cm_enums import RAI_PASSIVE, RDMA_PS_TCP
except ImportError:  # their place in rdma-core 65
    from pyverbs.librdmacm_enums import RAI_PASSIVE, rdma_port_space
    RDMA_PS_TCP = rdma_port_space.RDMA_PS_TCP

PORT, SIZE = '7473', 64
queues = QPInitAttr(cap=QPCap(max_send_wr=1, max_recv_wr=1))

if sys.argv[1] == 'server':
    where = AddrInfo(src='0.0.0.0', src_service=PORT, port_space=RDMA_PS_TCP, flags=RAI_PASSIVE)
    listener = CMID(creator=where, qp_init_attr=queues)
    listener.listen()
    peer = listener.get_request()
else:
    where = AddrInfo(dst=sys.argv[2], dst_service=PORT, port_space=RDMA_PS_TCP)
    peer = CMID(creator=where, qp_init_attr=queues)

memory = peer.reg_msgs(SIZE)
peer.post_recv(memory)  # before the peer can send
peer.accept() if sys.argv[1] == 'server' else peer.connect()
for turn in ('client', 'server'):
    if sys.argv[1] == turn:
        text = f'hello from the {turn}'.encode().ljust(SIZE, b'\0')
        reply = peer.reg_msgs(SIZE)
        reply.write(text, SIZE)
        peer.post_send(reply, 0)
        peer.get_send_comp()
    else:
        peer.get_recv_comp()
        print(memory.read(SIZE, 0).rstrip(b'\0').decode())
peer.disconnect()
