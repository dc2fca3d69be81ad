# SPDX-License-Identifier: BSD-2-Clause
"""sockets_misuse.py PORT CASE [N]: a server, forked, and its client, whose sockets are used in odd ways.

The server echoes over an edge-triggered epoll set; a client that has shut its half down gets the rest."""
import contextlib
import errno
import fcntl
import hashlib
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time


def echo(listener, pause):
    """Read and write until EAGAIN, as edge-triggered sets want it."""
    listener.setblocking(False)
    epoll = select.epoll()
    epoll.register(listener, select.EPOLLIN)
    conns, waiting, over = {}, {}, set()
    while True:
        for fd, _ in epoll.poll():
            if fd == listener.fileno():
                try:
                    while True:
                        conn, _ = listener.accept()
                        conn.setblocking(False)
                        conns[conn.fileno()] = conn
                        waiting[conn.fileno()] = bytearray()
                        epoll.register(conn, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
                except BlockingIOError:
                    continue
            time.sleep(pause)
            try:
                while True:
                    got = conns[fd].recv(65536)
                    if not got:
                        over.add(fd)
                        break
                    waiting[fd] += got
            except BlockingIOError:
                pass
            except OSError:
                conns.pop(fd).close()
                continue
            try:
                while waiting[fd]:
                    del waiting[fd][:conns[fd].send(waiting[fd][:65536])]
                if fd in over:
                    over.discard(fd)
                    conns.pop(fd).close()
            except BlockingIOError:
                pass
            except OSError:
                conns.pop(fd).close()


def read_all(sock, n):
    got = bytearray()
    while len(got) < n:
        piece = sock.recv(n - len(got))
        assert piece, "the end after %d of %d octets" % (len(got), n)
        got += piece
    return bytes(got)


def use(s):
    """From here on the connection has been used, so no child has it without its parent."""
    s.sendall(b"x")
    assert read_all(s, 1) == b"x"
    return s


def child_sends(s, word):
    child = os.fork()
    if child == 0:
        s.sendall(word)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def many(connect, _, n):
    socks = [connect() for _ in range(n)]
    for turn in range(2):
        for i, s in enumerate(socks):
            s.sendall(b"%015d%d" % (i, turn))
        for i, s in enumerate(socks):
            assert read_all(s, 16) == b"%015d%d" % (i, turn), i
    for s in socks:
        s.close()


def killed(connect, server, _):
    s = use(connect())
    os.kill(server, signal.SIGKILL)
    s.settimeout(20)
    try:
        assert s.recv(1) == b""
    except ConnectionError as error:
        print("recv:", error)
    said = []
    for _ in range(3):
        try:
            s.send(b"y")
        except OSError as error:
            said.append(error.errno)
    assert said[-1:] == [errno.EPIPE], said  # with SIGPIPE, which Python ignores


def slow(connect, _, n):
    """More than all buffers hold goes out before anything is read, and the half-close comes last."""
    s = connect()
    sent = os.urandom(n)
    digest = hashlib.sha256()

    def reader():
        time.sleep(1)
        while True:
            piece = s.recv(100000)
            if not piece:
                return
            digest.update(piece)

    thread = threading.Thread(target=reader)
    thread.start()
    s.sendall(sent)
    s.shutdown(socket.SHUT_WR)
    thread.join()
    assert digest.digest() == hashlib.sha256(sent).digest()


def closed(connect, _, n):
    """One thread reads, another ends the socket."""
    for _ in range(n):
        s = use(connect())
        said = []

        def reader():
            try:
                said.append(s.recv(1))
            except OSError as error:
                said.append(error)

        thread = threading.Thread(target=reader)
        thread.start()
        time.sleep(0.05)
        s.shutdown(socket.SHUT_RDWR)
        os.close(s.detach())
        thread.join(20)
        assert said, "the reader still sleeps"


def ran(connect, _, n):
    """The server has handed the connection to another program as 0 and 1, before it used it."""
    s = connect()
    sent = os.urandom(n)
    s.sendall(sent)
    s.shutdown(socket.SHUT_WR)
    assert read_all(s, n) == sent
    assert s.recv(1) == b""


def fair(connect, _, __):
    """A thread that works for a millisecond at each event hears soon of a pipe, and of a connection, while the other
    always has octets."""
    s = connect()
    s.sendall(bytes(200000))
    r, w = os.pipe()
    epoll = select.epoll()
    epoll.register(s, select.EPOLLIN)
    epoll.register(r, select.EPOLLIN)
    for awaited in (r, s.fileno()):
        most = 0
        for _ in range(60):
            os.write(w, b"x" if awaited == r else b"xxxx")
            for waits in range(1, 100):
                ready = dict(epoll.poll())
                until = time.monotonic() + 0.001
                while time.monotonic() < until:
                    pass
                if s.fileno() in ready:
                    s.recv(1)
                if r in ready:
                    os.read(r, 1)
                if awaited in ready:
                    break
            most = max(most, waits)
        assert most <= 3, (awaited == r, most)


def lines(_, __, ___):
    """A plain server that reads lines answers an MPA Request at once, and its client does not wait for a Reply."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        first, _ = listener.accept()
        line = b""
        while not line.endswith(b"\r\n\r\n"):
            line += first.recv(1)
        first.sendall(b"what?")
        second, _ = listener.accept()
        second.sendall(b"plain")

    threading.Thread(target=serve, daemon=True).start()
    begun = time.monotonic()
    s = socket.create_connection(listener.getsockname())
    assert time.monotonic() - begun < 20, time.monotonic() - begun
    assert s.recv(5, socket.MSG_WAITALL) == b"plain"


def plain_python(code, *arguments):
    """Another process, whose sockets are the kernel's."""
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=env, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)


RELAY = """
import contextlib, socket, sys, threading, time
port, hold, pause = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
client, _ = listener.accept()
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
server.connect(("127.0.0.1", port))
def carry(source, sink, wait, pause, crumbs):
    time.sleep(wait)
    with contextlib.suppress(OSError):
        for _ in range(crumbs):
            sink.sendall(source.recv(1))
            time.sleep(0.02)
        while piece := source.recv(4096):
            sink.sendall(piece)
            time.sleep(pause)
        sink.shutdown(socket.SHUT_WR)
server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
threading.Thread(target=carry, args=(client, server, hold, 0, int(sys.argv[4]))).start()
carry(server, client, 0, pause, 0)
"""


def start_relay(listener, hold, pause, crumbs=0):
    """Between a client and the listener: holds the client's octets back first, lets some through one by one, and
    pauses after each 4 KiB to the client."""
    relay = plain_python(RELAY, listener.getsockname()[1], hold, pause, crumbs)
    return relay, ("127.0.0.1", int(relay.stdout.readline()))


def hear(polling, sock):
    """Reads "hello" as a set shows it: at all, and not for nothing all the time."""
    got, events = b"", 0
    while got != b"hello":
        assert polling.poll(10), "nothing is shown"
        events += 1
        assert events < 10, "something is shown again and again"
        with contextlib.suppress(BlockingIOError):
            got += sock.recv(10, socket.MSG_DONTWAIT)


def delayed(_, __, ___):
    """The Request of a client comes two seconds after its connection, which an epoll set watches already."""
    for edge in (0, select.EPOLLET):
        listener = socket.create_server(("127.0.0.1", 0))
        relay, address = start_relay(listener, 2, 0)
        client = socket.socket()
        thread = threading.Thread(target=lambda: (client.connect(address), client.sendall(b"hello")))
        thread.start()
        conn, _ = listener.accept()
        conn.setblocking(False)
        polling = select.epoll()
        polling.register(conn, select.EPOLLIN | edge)
        hear(polling, conn)
        thread.join()
        conn.close()
        assert client.recv(1) == b""
        client.close()
        assert relay.wait() == 0


def in_epoll(conn):
    polling = select.epoll()
    polling.register(conn, select.EPOLLIN)
    return polling.poll(10)


def in_poll(conn):
    polling = select.poll()
    polling.register(conn, select.POLLIN)
    return polling.poll(10000)


def late_request(_, __, crumbs):
    """The Request of a client comes two seconds after its connection, some of it octet by octet, and a message later
    still. A server that waits, and then reads once, is told of the message alone."""
    waits = {"select": lambda conn: select.select([conn], [], [], 10)[0], "poll": in_poll, "epoll": in_epoll}
    for name, wait in waits.items():
        listener = socket.create_server(("127.0.0.1", 0))
        relay, address = start_relay(listener, 2, 0, crumbs)
        client = socket.socket()
        thread = threading.Thread(target=lambda: (client.connect(address), time.sleep(0.5), client.sendall(b"hello")))
        thread.start()
        conn, _ = listener.accept()
        assert wait(conn), name
        waiting = fcntl.ioctl(conn, termios.FIONREAD, struct.pack("i", 0))
        assert struct.unpack("i", waiting)[0] == 5, (name, waiting)
        assert conn.recv(10) == b"hello", name
        thread.join()
        conn.close()
        assert client.recv(1) == b"", name
        client.close()
        assert relay.wait() == 0


def refused(_, __, ___):
    """A client sends its Request and resets. A server whose set tells once is told of it."""
    request = b"MPA ID Req Frame" + bytes([0x40, 1, 0, 40]) + bytes(40)
    listener = socket.create_server(("127.0.0.1", 0))
    for events in (0, select.EPOLLET, select.EPOLLONESHOT):
        client = plain_python("import os, socket, struct, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
                              "sys.stdin.read(1); s.send(bytes.fromhex(sys.argv[2]));"
                              "s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); s.close()",
                              listener.getsockname()[1], request.hex())
        conn, _ = listener.accept()
        polling = select.epoll()
        polling.register(conn, select.EPOLLIN | events)
        client.stdin.write(b"x")
        client.stdin.flush()
        assert client.wait() == 0
        time.sleep(0.1)
        conn.setblocking(False)
        for _ in range(5):
            assert polling.poll(5), events
            try:
                conn.recv(1)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                break
        else:
            raise AssertionError(("no reset", events))
        conn.close()


def probed_in(port):
    """In how many seconds the kernel probes the ends of a port's connections, with the end's local port."""
    rows = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
    return {int(row[1].split(":")[1], 16): int(row[5].split(":")[1], 16) / os.sysconf("SC_CLK_TCK") for row in rows
            if row[3] == "01" and row[5].startswith("02:") and "%04X" % port in (row[1][-4:], row[2][-4:])}


def patient(_, __, idle):
    """Both ends have chosen when a silent peer is probed, and it stays so when the connection is RDMA."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def probe(s, seconds):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds)

    def serve():
        conn, _ = listener.accept()
        probe(conn, 2 * idle)
        conn.sendall(conn.recv(1))
        conn.recv(1)

    threading.Thread(target=serve).start()
    client = socket.socket()
    probe(client, idle)
    client.connect(("127.0.0.1", port))
    client.sendall(b"x")
    assert client.recv(1) == b"x"
    for _ in range(50):
        time.sleep(0.1)  # until all is acknowledged
        probed = probed_in(port)
        if len(probed) == 2:
            break
    assert len(probed) == 2, probed
    for end, seconds in probed.items():
        wanted = 2 * idle if end == port else idle
        assert wanted - 10 < seconds <= wanted, (end == port, seconds)
    client.close()


def slowly(_, __, octets):
    """A server closes, and what it has written needs more than ten seconds to its client."""
    listener = socket.create_server(("127.0.0.1", 0))
    relay, address = start_relay(listener, 0, 12 * 4096 / octets)
    got = []

    def read():
        client = socket.create_connection(address)
        client.sendall(b"x")
        try:
            while piece := client.recv(65536):
                got.append(len(piece))
        except OSError as error:
            got.append(str(error))

    thread = threading.Thread(target=read)
    thread.start()
    conn, _ = listener.accept()
    assert conn.recv(1) == b"x"
    conn.sendall(bytes(octets))
    conn.close()
    thread.join()
    assert sum(n for n in got if isinstance(n, int)) == octets, got[-1]
    assert relay.wait() == 0


def watched(connect, _, __):
    """An epoll set watches a socket before that connects, and waits in connect."""
    address = connect().getpeername()
    for edge in (0, select.EPOLLET):
        s = socket.socket()
        polling = select.epoll()
        polling.register(s, select.EPOLLIN | edge)
        s.connect(address)
        s.sendall(b"hello")
        hear(polling, s)


def inherited(_, __, ___):
    """A program that inherits a socket whose connect has failed leaves the error to its parent."""
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    s = socket.socket()
    os.set_inheritable(s.fileno(), True)
    s.setblocking(False)
    assert s.connect_ex(silent.getsockname()) == errno.EINPROGRESS
    polling = select.poll()
    polling.register(s, select.POLLOUT)
    assert polling.poll(5000)
    subprocess.run(["true"], close_fds=False, check=True)
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED


def gone(_, __, clients):
    """A client that resets after its Request is a reset for the program, and nothing to warn of."""
    resets = """
import socket, struct, sys
for _ in range(int(sys.argv[2])):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    s.sendall(b"MPA ID Req Frame" + bytes([0x40, 1, 0, 0]))
    sys.stdin.read(1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    print(flush=True)
"""
    listener = socket.create_server(("127.0.0.1", 0))
    peer = plain_python(resets, listener.getsockname()[1], clients)
    for _ in range(clients):
        conn, _ = listener.accept()
        peer.stdin.write(b"x")
        peer.stdin.flush()
        assert peer.stdout.readline() == b"\n"
        try:
            raise AssertionError(conn.recv(1))
        except ConnectionResetError:
            conn.close()
    assert peer.wait() == 0


def silent_peer():
    """The address of another process, which never accepts, and what ends that process."""
    told, tells = os.pipe()
    ends, ended = os.pipe()
    if os.fork() == 0:
        os.close(ended)
        listener = socket.create_server(("127.0.0.1", 0))
        os.write(tells, b"%d" % listener.getsockname()[1])
        os.read(ends, 1)
        os._exit(0)
    return ("127.0.0.1", int(os.read(told, 8))), ended


def connecting(_, __, ___):
    """What waits for a silent peer while a socket connects ends by the socket's own time-out."""
    limit = struct.pack("ll", 0, 300000)
    silent, end = silent_peer()
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    begun = time.monotonic()
    s.connect(silent)
    assert 0.25 < time.monotonic() - begun < 1.2, time.monotonic() - begun
    s = socket.socket()
    begun = time.monotonic()
    s.connect(silent)
    assert time.monotonic() - begun > 2, "the limit of one socket made the peer a plain one for all"
    silent, other_end = silent_peer()
    s = socket.socket()
    s.setblocking(False)
    assert s.connect_ex(silent) == errno.EINPROGRESS
    s.setblocking(True)
    for option, call in ((socket.SO_RCVTIMEO, lambda: s.recv(1)), (socket.SO_SNDTIMEO, lambda: s.send(b"x"))):
        s.setsockopt(socket.SOL_SOCKET, option, limit)
        begun = time.monotonic()
        try:
            call()
            raise AssertionError("a peer that is silent was heard")
        except BlockingIOError:
            assert 0.25 < time.monotonic() - begun < 1.2, time.monotonic() - begun
    begun = time.monotonic()
    s.close()
    assert time.monotonic() - begun < 1, "close has waited for the peer"
    os.close(end)
    os.close(other_end)


def late(_, __, connections):
    """A server that reads from each connection before it accepts the next one."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=connections)

    def serve():
        for i in range(connections):
            s, _ = listener.accept()
            assert read_all(s, 1000) == bytes([i]) * 1000
            s.sendall(b"y")
            kept.append(s)

    kept, begun = [], time.monotonic()
    thread = threading.Thread(target=serve)
    thread.start()
    clients = [socket.create_connection(listener.getsockname()) for _ in range(connections)]
    assert time.monotonic() - begun < 1, time.monotonic() - begun
    for i in reversed(range(connections)):
        clients[i].sendall(bytes([i]) * 1000)
    for s in clients:
        assert s.recv(1) == b"y"
    thread.join()


def limited(connect, _, __):
    """Time-outs of a connection are those of the calls of a child, too, and cost no octet."""
    s = use(connect())
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        s.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 0, 200000))
    child = os.fork()
    if child == 0:
        for _ in range(3):
            try:
                s.recv(1)
                os._exit(1)
            except BlockingIOError:
                pass
        s.sendall(b"y" * 1000)
        os._exit(0 if read_all(s, 1000) == b"y" * 1000 else 1)
    assert os.waitpid(child, 0)[1] == 0


def by_poll(s):
    poll = select.poll()
    poll.register(s, select.POLLIN)
    poll.poll()
    return s.recv(3)


def by_select(s):
    select.select([s], [], [])
    return s.recv(3)


def by_epoll(s):
    epoll = select.epoll()
    epoll.register(s, select.EPOLLIN)
    epoll.poll()
    return s.recv(3)


def shared(connect, _, before):
    """A parent waits for a connection, in each way, and a child that is forked then writes to it: the parent has the
    answer.

    `before`: so many round trips in that way come first, so that the thread leads."""
    for wait in (lambda s: s.recv(3), lambda s: s.recv(3, socket.MSG_WAITALL), by_poll, by_select, by_epoll):
        s, answers = connect(), []

        def waiting():
            for _ in range(before):
                s.sendall(b"abc")
                answers.append(wait(s))
            answers.append(wait(s))

        thread = threading.Thread(target=waiting, daemon=True)
        thread.start()
        while len(answers) < before:
            time.sleep(0.001)
        time.sleep(0.05)
        child_sends(s, b"yyy")
        thread.join(10)
        assert answers == [b"abc"] * before + [b"yyy"], answers[before:]
        s.sendall(b"end")
        assert wait(s) == b"end"


def half(connect, _, __):
    """The parent has a part of what it waits for when a child uses the connection, and gets the rest."""
    s, got = connect(), []
    thread = threading.Thread(target=lambda: got.append(s.recv(6, socket.MSG_WAITALL)), daemon=True)
    s.sendall(b"abc")
    thread.start()
    time.sleep(0.2)
    child_sends(s, b"def")
    thread.join(10)
    assert got == [b"abcdef"], got


def use_when_told(s, word):
    """A child has the connection, and uses it once it is told: a function that tells it, and returns its status."""
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.read(there, 1)
            s.sendall(word)
            while not select.select([s], [], [], 5)[0]:
                pass
            os._exit(0 if s.recv(len(word)) == word else 1)
        finally:
            os._exit(2)
    os.close(there)

    def go():
        os.write(here, b"x")
        return os.waitpid(child, 0)[1]
    return go


def children(connect, _, __):
    """Two children use a connection, one after the other; the parent has closed it before the second, or before both."""
    for closed in (False, True):
        s = use(connect())
        first, second = use_when_told(s, b"first"), use_when_told(s, b"second")
        if closed:
            s.close()
        assert first() == 0
        s.close()
        assert second() == 0


def closing(_, __, ___):
    """A server and its child have used a connection and closed it: the peer has the end, though the child lives on."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    server = os.fork()
    if server == 0:
        conn, _ = listener.accept()
        assert read_all(conn, 1) == b"x"
        if os.fork() == 0:
            conn.sendall(b"y")
            conn.close()
            time.sleep(5)
            os._exit(0)
        time.sleep(0.5)
        conn.close()
        os._exit(0 if os.wait()[1] == 0 else 1)
    s = socket.create_connection(listener.getsockname())
    s.sendall(b"x")
    assert read_all(s, 1) == b"y"
    begun = time.monotonic()
    assert s.recv(1) == b""
    assert time.monotonic() - begun < 3
    assert os.waitpid(server, 0)[1] == 0


def orphaned(connect, _, __):
    """A parent is killed: the child that used its connection has the end, though a later child lives."""
    told, tell = os.pipe()
    parent = os.fork()
    if parent == 0:
        s = connect()
        child = os.fork()
        if child == 0:
            use(s)
            os.write(tell, b"1")
            os.write(tell, b"E" if s.recv(1) == b"" else b"?")
            os._exit(0)
        os.write(tell, b"0" if os.read(told, 1) == b"1" else b"?")
        time.sleep(0.1)
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        time.sleep(60)
    time.sleep(1)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    begun, got = time.monotonic(), b""
    while b"E" not in got and time.monotonic() - begun < 3:
        if select.select([told], [], [], 1)[0]:
            got += os.read(told, 10)
    assert b"E" in got, got


def flags(connect, _, rounds):
    """A thread changes O_NONBLOCK while a child begins to use the connection: nothing spins afterwards."""
    conns = []

    def change(s, over):
        while not over.is_set():
            s.setblocking(False)
            s.setblocking(True)

    for _ in range(rounds):
        s, over = connect(), threading.Event()
        thread = threading.Thread(target=change, args=(s, over))
        thread.start()
        try:
            assert use_when_told(s, b"y")() == 0
        finally:
            over.set()
            thread.join()
        conns.append(s)
    before = time.process_time()
    time.sleep(1)
    assert time.process_time() - before < 0.3


def early(connect, server, _):
    """The table of descriptors grows before there are threads, in a child too: later that takes 10 ms."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    wanted, until = 2048 if limit > 4096 else limit // 2, time.monotonic() + 30

    def has_grown(process):
        with open(f"/proc/{process}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("FDSize:")) > wanted

    assert has_grown("self")
    while not has_grown(server):  # it may not run yet; nothing connects to it meanwhile
        assert time.monotonic() < until
        time.sleep(0.01)
    use(connect())


def numbers(connect, server, n):
    """A connection has one number of the program's, whoever makes it and waits for it; the library's are beyond."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    beyond, until = 2048 if limit > 4096 else limit // 2, time.monotonic() + 30

    def low(process):
        return sum(int(fd) < beyond for fd in os.listdir(f"/proc/{process}/fd"))

    def kinds(process):
        folder, found = f"/proc/{process}/fd", []
        for fd in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(os.readlink(os.path.join(folder, fd)))
        return found

    while "anon_inode:[eventpoll]" not in kinds(server):  # it has all that it had before the first connection
        assert time.monotonic() < until
        time.sleep(0.01)
    epoll = select.epoll()
    before = low("self"), low(server)
    kept = [use(connect()) for _ in range(n)]
    later = socket.socket()
    later.setblocking(False)
    assert later.connect_ex(kept[0].getpeername()) == errno.EINPROGRESS
    assert struct.unpack("i", fcntl.ioctl(later, termios.TIOCOUTQ, bytes(4)))[0] == 0
    assert select.select([], [later], [], 30)[1] == [later]
    later.setblocking(True)
    kept.append(use(later))
    for s in kept:
        epoll.register(s, select.EPOLLIN)
        use(s)
    assert (low("self"), low(server)) == (before[0] + n + 1, before[1] + n + 1), (before, low("self"), low(server))


def counted(connect, _, octets):
    """FIONREAD counts all that has come, and looking costs little; in the end nothing is on its way."""
    def count(request):
        return struct.unpack("i", fcntl.ioctl(s, request, bytes(4)))[0]

    s, until = connect(), time.monotonic() + 30
    s.sendall(bytes(octets))
    while count(termios.FIONREAD) < octets:
        assert time.monotonic() < until
    before = time.process_time()
    for _ in range(10000):
        assert count(termios.FIONREAD) == octets
    assert time.process_time() - before < 0.5
    assert len(read_all(s, 1000)) == 1000 and count(termios.FIONREAD) == octets - 1000
    read_all(s, octets - 1000)
    assert count(termios.FIONREAD) == 0
    while count(termios.TIOCOUTQ) > 0:
        assert time.monotonic() < until
    s.shutdown(socket.SHUT_WR)
    assert s.recv(1) == b"" and count(termios.FIONREAD) == 0


def locked(_, __, ___):
    """A program that begins keeps its lock on the file that is its descriptor 0."""
    file, begun = tempfile.TemporaryFile(), os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(file.fileno(), 0)
        file.close()  # the lock ends with the first descriptor of the file that is closed
        fcntl.lockf(0, fcntl.LOCK_EX)
        os.dup2(begun[1], 1)
        os.execv(sys.executable, [sys.executable, "-c", "import time; print(flush=True); time.sleep(300)"])
    assert os.read(begun[0], 1) == b"\n"
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raise AssertionError("the lock is lost")
    except BlockingIOError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def stopped(connect, _, __):
    """A child that asks a stopped parent for a connection has an error in time; the parent keeps it."""
    s = use(connect())
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.kill(parent, signal.SIGSTOP)
        begun, said = time.monotonic(), None
        try:
            s.recv(1)
        except ConnectionResetError as error:
            said = error
        os.kill(parent, signal.SIGCONT)
        time.sleep(0.2)  # the parent reads what was asked before it sees the end of this process
        os._exit(0 if said and time.monotonic() - begun < 20 else 1)
    assert os.waitpid(child, 0)[1] == 0
    s.sendall(b"y")
    assert read_all(s, 1) == b"y"


def left(_, __, octets):
    """A program that ends without a close has its octets sent, also those that its threads carry since a child has
    used the connection. The reader begins later, and gets them all."""
    for carried in (False, True):
        listener = socket.create_server(("127.0.0.1", 0))
        child = os.fork()
        if child == 0:
            s = socket.create_connection(listener.getsockname())
            s.sendall(b"x")
            if carried:
                child_sends(s, b"y")
            s.sendall(bytes(octets))
            os._exit(0)
        conn, _ = listener.accept()
        time.sleep(0.3)
        begun, got = time.monotonic(), 0
        while piece := conn.recv(65536):
            got += len(piece)
        assert got == octets + 1 + carried, got
        assert os.waitpid(child, 0)[1] == 0
        assert time.monotonic() - begun < 8  # it waits for 10 s for what its threads carry, if nobody ends that


def main():
    port, case, n = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(1024)
    server = os.fork()
    if server == 0:
        if case == "ran":
            conn, _ = listener.accept()
            os.dup2(conn.fileno(), 0)
            os.dup2(conn.fileno(), 1)
            os.execvp("cat", ["cat"])
        echo(listener, 0.0005 if case == "slow" else 0)
    listener.close()
    try:
        globals()[case](lambda: socket.create_connection(("127.0.0.1", port)), server, n)
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
    print("well")


main()
