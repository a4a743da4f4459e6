#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks by number; run inside a sandbox. sink.test and read.test take every connection, the
requests of good.test and read.test are read, hole.test never answers, *.wild.test has no end."""
import resource
import select
import socket
import struct
import time

import egress_try
from egress_try import THROUGH, check, dial, expect, get, main, request, talk

# A port of its own for each attack: the host's kernel keeps the ends of closed connections for a
# minute, and searches long for a free port of its own when one server has had very many.
IDLE, LORIS, HELLOS, LOOP = 9000, 9001, 9002, 9003

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def address(host, port):
    return socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)[0][4]


def flood(where, n, data=b""):
    """n connections, each with this data; those that could be made."""
    held = []
    for _ in range(n):
        s = socket.socket()
        s.settimeout(2)
        try:
            s.connect(where)
            if data:
                s.sendall(data)
            held.append(s)
        except OSError:
            s.close()
    return held


def alive(held):
    """How many of them the other side has not ended."""
    p = select.poll()
    for s in held:
        p.register(s, select.POLLIN)
    return len(held) - len(p.poll(0))


def drop(held):
    for s in held:
        s.close()


def recovers(title, fn, *args, within=8.0):
    """An honest request works again."""
    begin = time.monotonic()
    while time.monotonic() - begin < within:
        got, _ = egress_try.verdict(fn, *args)
        if got == THROUGH:
            break
        time.sleep(0.1)
    took = time.monotonic() - begin
    check(f"{title}: again after {took * 1000:.0f} ms", got == THROUGH, got)


def both(title):
    recovers(title + ", passed", get, "plain.test", 80)
    recovers(title + ", read", get, "good.test", 80)


def idle(n):
    """Connections that never say anything."""
    begin = time.monotonic()
    held = flood(address("sink.test", IDLE), int(n))
    took = time.monotonic() - begin
    time.sleep(0.5)
    print(f"{len(held)} connected in {took:.1f} s, {alive(held)} alive")
    check("many are held", alive(held) > 4000, alive(held))
    begin = time.monotonic()
    got, detail = egress_try.verdict(get, "plain.test", 80)
    check(f"meanwhile: {got}, at once", got != egress_try.HANGS and time.monotonic() - begin < 1, detail)
    drop(held)
    both("idle")


def denied(n):
    """Connections that are refused, and do not read why."""
    held = flood(("45.45.0.2", 80), int(n))
    begin = time.monotonic()
    while alive(held) and time.monotonic() - begin < 3:
        time.sleep(0.05)
    check(f"all {len(held)} were ended after {time.monotonic() - begin:.2f} s", not alive(held), alive(held))
    drop(held)
    held = flood(("45.45.0.2", 80), 500, b"GET / HTTP/1.1\r\nHost: 45.45.0.2\r\n")
    expect(THROUGH, "meanwhile", get, "plain.test", 80)
    time.sleep(1)
    check("half a request is answered within a second", not alive(held), alive(held))
    drop(held)
    both("denied")


def loris(n):
    """Heads that never end, on connections that are read."""
    held = flood(address("read.test", LORIS), int(n), b"GET /ok HTTP/1.1\r\nHost: read.test\r\nX-A: b")
    time.sleep(0.5)
    print(f"{len(held)} connected, {alive(held)} alive")
    expect(THROUGH, "meanwhile, another host", get, "plain.test", 80, limit=3)
    for s in held[:200]:
        try:
            s.sendall(b"b")
        except OSError:
            pass
    drop(held)
    both("loris")


def hellos(n):
    """TLS handshakes that never go on: half a hello, and a whole one without what must follow."""
    held = flood(address("read.test", HELLOS), int(n), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    expect(THROUGH, "meanwhile, another host", get, "plain.test", 80, limit=3)
    check("they are held", alive(held) > 0, alive(held))
    time.sleep(5.5)
    check("half a hello is not waited for longer than 5 seconds", alive(held) == 0, alive(held))
    drop(held)
    both("hellos")


def loop(n):
    """Connections that come and go."""
    where = address("read.test", LOOP)
    rst = struct.pack("ii", 1, 0)
    begin = time.monotonic()
    for i in range(int(n)):
        s = socket.socket()
        try:
            s.connect(where)
            if i % 3 == 0:
                s.sendall(b"GET")
            if i % 2:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, rst)
        except OSError:
            pass
        s.close()
    print(f"{n} in {time.monotonic() - begin:.1f} s")
    both("loop")


def hole(n):
    """Connections to a host that never answers."""
    held = flood(address("hole.test", 80), int(n))
    drop(held)
    both("hole")


def question(name, ident):
    wire = b"".join(bytes([len(p)]) + p for p in name.encode().split(b".")) + b"\0"
    return struct.pack("!HHHHHH", ident & 0xFFFF, 0x0100, 1, 0, 0, 0) + wire + b"\0\1\0\1"


def dns(n):
    """Questions as fast as they can be sent: refused names, and names that must be looked up."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("198.18.0.1", 53))
    begin = time.monotonic()
    for i in range(int(n)):
        name = f"x{i}.evil.test" if i % 4 else f"x{i}.wild.test"
        try:
            s.send(question(name, i))
        except OSError:
            pass
    print(f"{n} in {time.monotonic() - begin:.1f} s")
    both("dns")
    streams = flood(("198.18.0.1", 53), 600, b"\x00")
    expect(THROUGH, "while streams of DNS hang", get, "plain.test", 80, limit=3)
    drop(streams)


def greedy():
    """Answers that nobody reads, from a server that sends as fast as it can."""
    held = flood(address("good.test", 80), 25, request("good.test", 80, "/large"))
    held += flood(address("plain.test", 80), 25, request("plain.test", 80, "/large"))
    time.sleep(1)
    expect(THROUGH, "meanwhile", get, "plain.test", 80, limit=3)
    drop(held)
    both("greedy")


def watch(seconds):
    """In another sandbox: honest requests, one after another; the slowest."""
    slowest, n, end = 0.0, 0, time.monotonic() + float(seconds)
    while time.monotonic() < end:
        begin = time.monotonic()
        got, detail = egress_try.verdict(get, "plain.test", 80)
        took = time.monotonic() - begin
        check("an honest request", got == THROUGH and took < 4, f"{got} {took} {detail}") if got != THROUGH or took >= 4 else None
        slowest, n = max(slowest, took), n + 1
        time.sleep(0.05)
    print(f"{n} requests, the slowest took {slowest * 1000:.0f} ms")
    check("there were some", n >= 1, n)


def gone():
    """The role is dead: nothing works, and nothing waits."""
    for title, fn in (("a name", lambda: get("plain.test", 80)), ("a name that was never asked for", lambda: get("good.test", 80)),
                      ("a public address", lambda: talk(dial("45.45.0.1", 80), request("plain.test", 80))),
                      ("a private address", lambda: talk(dial("10.1.2.3", 80), request("plain.test", 80))),
                      ("the resolver over TCP", lambda: dial("198.18.0.1", 53) and b"UPSTREAM"),
                      ("a synthetic address", lambda: talk(dial("198.18.1.0", 80), request("plain.test", 80)))):
        egress_try.refused(title, fn)


main(globals())
