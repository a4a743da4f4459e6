#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks by TLS handshakes, HTTP requests and a server that misbehaves; run inside a sandbox.

plain.test may be reached without a look at requests, good.test for /ok only, *.wild.test is
opened and misbehaves where the path says so. other.test may not be reached; it is the same server.
"""
import ssl
import time

from egress_try import MARK, check, client_tls, dial, dial_tls, get, get_tls, honest, main, read_all, refused, request, talk, timed, whole

OTHER = "other.test"


# ---- whose server it is: Host --------------------------------------------------------------


def with_host(method, target, host, version="HTTP/1.1", eol="\r\n"):
    return f"{method} {target} {version}{eol}Host: {host}{eol}{eol}".encode("latin1")


def hosts(host):
    """(title, bytes) that a careless server takes for a request to OTHER."""
    get_other = with_host("GET", "/ok", OTHER)
    yield "Host", get_other
    yield "Host with a port", with_host("GET", "/ok", OTHER + ":80")
    yield "Host with the other as port", with_host("GET", "/ok", f"{host}:{OTHER}")
    yield "two Hosts, the right one first", f"GET /ok HTTP/1.1\r\nHost: {host}\r\nHost: {OTHER}\r\n\r\n".encode()
    yield "two Hosts, the right one last", f"GET /ok HTTP/1.1\r\nHost: {OTHER}\r\nHost: {host}\r\n\r\n".encode()
    yield "Host twice in other letters", f"GET /ok HTTP/1.1\r\nHost: {host}\r\nhOST: {OTHER}\r\n\r\n".encode()
    yield "a list in Host", with_host("GET", "/ok", f"{host}, {OTHER}")
    yield "a user in Host", with_host("GET", "/ok", f"{host}@{OTHER}")
    yield "a fragment in Host", with_host("GET", "/ok", f"{OTHER}#{host}")
    yield "a NUL in Host", with_host("GET", "/ok", f"{OTHER}\0.{host}")
    yield "a tab in Host", with_host("GET", "/ok", f"{OTHER}\t{host}")
    yield "a space before the colon", f"GET /ok HTTP/1.1\r\nHost: {host}\r\nHost : {OTHER}\r\n\r\n".encode()
    yield "a folded Host", f"GET /ok HTTP/1.1\r\nHost: {host}\r\n {OTHER}\r\n\r\n".encode()
    yield "a Host behind a folded line", f"GET /ok HTTP/1.1\r\n Host: {OTHER}\r\nHost: {host}\r\n\r\n".encode()
    yield "a bare LF before Host", f"GET /ok HTTP/1.1\r\nX: y\nHost: {OTHER}\r\nHost: {host}\r\n\r\n".encode()
    yield "a bare CR before Host", f"GET /ok HTTP/1.1\r\nX: y\rHost: {OTHER}\r\nHost: {host}\r\n\r\n".encode()
    yield "bare LFs only", with_host("GET", "/ok", OTHER, eol="\n")
    yield "no Host", b"GET /ok HTTP/1.1\r\n\r\n"
    yield "absolute form", with_host("GET", f"http://{OTHER}/ok", host)
    yield "absolute form and its Host", with_host("GET", f"http://{OTHER}/ok", OTHER)
    yield "absolute form with a user", with_host("GET", f"http://{host}@{OTHER}/ok", host)
    yield "another scheme", with_host("GET", f"https://{OTHER}/ok", host)
    yield "authority form", with_host("GET", f"{OTHER}:80", host)
    yield "CONNECT", with_host("CONNECT", f"{OTHER}:443", f"{OTHER}:443")
    yield "connect in small letters", with_host("connect", f"{OTHER}:443", f"{OTHER}:443")
    for n in (1, 2, 8, 9, 40):
        yield f"{n} empty lines first", b"\r\n" * n + get_other
    yield "line feeds first", b"\n" * 20 + get_other
    yield "spaces first", b"   " + get_other
    yield "a tab first", b"\t" + get_other
    yield "a vertical tab first", b"\v" + get_other
    yield "tabs between the words", get_other.replace(b"GET /ok ", b"GET\t/ok\t")
    yield "two spaces between the words", get_other.replace(b"GET /ok ", b"GET  /ok  ")
    yield "an unknown method and two spaces", get_other.replace(b"GET /ok ", b"BREW  /ok ")
    yield "an unknown method and a tab", get_other.replace(b"GET /ok ", b"BREW\t/ok ")
    yield "a vertical tab between", get_other.replace(b"GET /ok ", b"GET\v/ok ")
    yield "a vertical tab between, unknown", get_other.replace(b"GET /ok ", b"BREW\v/ok ")
    yield "small letters", get_other.replace(b"GET", b"get")
    yield "a long method", get_other.replace(b"GET", b"M" * 30)
    yield "a very long method", get_other.replace(b"GET", b"M" * 3000)
    yield "HTTP/0.9", b"GET /ok\r\n\r\n"
    yield "HTTP/2 without asking", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + get_other
    yield "a PROXY line first", b"PROXY TCP4 1.2.3.4 1.2.3.4 1 80\r\n" + get_other
    yield "a binary PROXY head first", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0" + get_other
    yield "HTTP/1.2", get_other.replace(b"HTTP/1.1", b"HTTP/1.2")
    yield "no version, with Host", get_other.replace(b" HTTP/1.1", b"")


def opener(kind, host):
    return lambda: dial_tls(host, 443) if kind == "tls" else dial(host, 80)


def send_to(open_it, data):
    with open_it() as s:
        return talk(s, data)


def bytewise(open_it, data):
    with open_it() as s:
        for i in range(len(data)):
            s.sendall(data[i : i + 1])
        return read_all(s, whole)


def second(open_it, host, data):
    """On a connection that has served an honest request."""
    with open_it() as s:
        first = talk(s, with_host("GET", "/ok", host))
        if MARK not in first:
            return b"the first failed " + MARK
        return talk(s, data)


def fronting(kind, host):
    open_it = opener(kind, host)
    honest("Host is the name", send_to, open_it, with_host("GET", "/ok", host))
    honest("in other letters", send_to, open_it, with_host("GET", "/ok", host.upper()))
    honest("byte by byte", bytewise, open_it, with_host("GET", "/ok", host))
    for title, data in hosts(host):
        refused(title, send_to, open_it, data)
        refused("second: " + title, second, open_it, host, data)
    refused("byte by byte", bytewise, open_it, with_host("GET", "/ok", OTHER))
    honest("still", send_to, open_it, with_host("GET", "/ok", host))


# ---- one request is one request ------------------------------------------------------------

HIDDEN = f"GET /smuggled HTTP/1.1\r\nHost: {OTHER}\r\nX: y\r\n\r\n".encode()


def smugglers(host):
    """(title, bytes). Some server would find HIDDEN in them, as a request of its own."""

    def post(fields, body, eol=b"\r\n"):
        return eol.join([b"POST /ok HTTP/1.1", b"Host: " + host.encode(), *fields]) + eol + eol + body

    n = b"%d" % len(HIDDEN)
    size = b"%x" % len(HIDDEN)
    te, zero = b"Transfer-Encoding: chunked", b"0\r\n\r\n"
    cl_all = b"Content-Length: %d" % len(zero + HIDDEN)
    yield "CL.TE", post([cl_all, te], zero + HIDDEN)
    yield "TE.CL", post([b"Content-Length: 4", te], size + b"\r\n" + HIDDEN + b"\r\n" + zero)
    yield "CL.CL", post([b"Content-Length: 0", b"Content-Length: " + n], HIDDEN)
    yield "CL list", post([b"Content-Length: 0, " + n], HIDDEN)
    yield "CL twice the same", post([b"Content-Length: " + n] * 2, HIDDEN)
    yield "CL with a sign", post([b"Content-Length: +" + n], HIDDEN)
    yield "CL with a minus", post([b"Content-Length: -1"], HIDDEN)
    yield "CL in hexadecimal", post([b"Content-Length: 0x" + size], HIDDEN)
    yield "CL with a space inside", post([b"Content-Length: 0 " + n], HIDDEN)
    yield "CL with zeros", post([b"Content-Length: 00" + n], HIDDEN)
    yield "CL that overflows", post([b"Content-Length: 18446744073709551616"], HIDDEN)
    yield "CL with a space before the colon", post([b"Content-Length : " + n], HIDDEN)
    yield "CL with a tab before the colon", post([b"Content-Length\t: " + n], HIDDEN)
    yield "CL with a NUL", post([b"Content-Length: 0\0" + n], HIDDEN)
    for title, field in (
        ("TE.TE identity", b"Transfer-Encoding: identity"), ("TE.TE other letters", b"Transfer-encoding: cow"),
        ("TE list", b"Transfer-Encoding: chunked, identity"), ("TE x", b"Transfer-Encoding: xchunked"),
        ("TE space", b"Transfer-Encoding : chunked"), ("TE tab", b"Transfer-Encoding:\tchunked"),
        ("TE vertical tab", b"Transfer-Encoding: \x0bchunked"), ("TE quotes", b'Transfer-Encoding: "chunked"'),
        ("TE folded", b"Transfer-Encoding:\r\n chunked"), ("TE behind a fold", b"X: y\r\n Transfer-Encoding: chunked"),
        ("TE bare LF", b"X: y\nTransfer-Encoding: chunked"), ("TE bare CR", b"X: y\rTransfer-Encoding: chunked"),
        ("TE NUL", b"Transfer-Encoding: chunked\0"), ("TE underscore", b"Transfer_Encoding: chunked"),
        ("TE semicolon", b"Transfer-Encoding: chunked;x"), ("TE empty", b"Transfer-Encoding: "),
        ("TE gzip", b"Transfer-Encoding: gzip, chunked"), ("TE named in Connection", te + b"\r\nConnection: Transfer-Encoding"),
    ):
        yield title, post([cl_all, field], zero + HIDDEN)
        yield title + " and a right one", post([te, field], zero + HIDDEN)
    yield "CL named in Connection", post([b"Connection: Content-Length, close", cl_all], zero + HIDDEN)
    yield "TE in HTTP/1.0", post([te], zero + HIDDEN).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    yield "a chunk that is 0x", post([te], b"0x0\r\n\r\n" + HIDDEN)
    yield "a chunk without digits", post([te], b"\r\n\r\n" + HIDDEN)
    yield "a chunk that is negative", post([te], b"-1\r\n" + HIDDEN)
    yield "a chunk that overflows", post([te], b"10000000000000000\r\n" + HIDDEN)
    yield "a chunk with a bare LF", post([te], b"0\n\n" + HIDDEN)
    yield "a chunk with a bare CR", post([te], b"0\r\r" + HIDDEN)
    yield "a chunk with a longer end", post([te], b"1\r\nxyz0\r\n\r\n" + HIDDEN)
    yield "a chunk with a quoted extension", post([te], b'1;a="\r\n\r\n' + HIDDEN + b'"\r\nx\r\n' + zero)
    yield "a chunk with LF in the extension", post([te], b"1;\nx\r\n0\r\n\r\n" + HIDDEN + b"\r\nx\r\n" + zero)
    yield "a trailer that is a request", post([te], b"0\r\n" + HIDDEN)
    yield "a trailer that frames", post([te], b"0\r\nContent-Length: %s\r\n\r\n" % n + HIDDEN)
    yield "bare LFs", post([te], zero + HIDDEN, eol=b"\n")
    yield "GET with a body", b"GET /ok HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n" + HIDDEN
    yield "HEAD with a body", b"HEAD /ok HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n" + HIDDEN
    yield "CRLF in the target", b"GET /ok\r\nHost: x\r\n\r\n" + HIDDEN
    yield "a bare CR in the target", f"GET /ok\rHost: x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() + HIDDEN
    yield "Expect that is not", post([b"Expect: 100-continue, x", cl_all], zero + HIDDEN)
    yield "an upgrade to h2c", post([b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__"], HIDDEN)
    yield "WebSocket that the server does not take", (
        f"GET /ok HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode() + HIDDEN)
    yield "a second request in one write", request(host, 80).replace(b":80", b"") + HIDDEN


def smuggle(kind, host):
    """What arrives is looked at outside. Here: nothing of it hangs, and nothing breaks."""
    open_it = opener(kind, host)
    length = b"POST /ok HTTP/1.1\r\nHost: %s\r\nContent-Length: 4\r\n\r\nbody" % host.encode()
    chunked = b"POST /ok HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n" % host.encode()
    honest("a body with a length", send_to, open_it, length)
    honest("a body in chunks", send_to, open_it, chunked)
    honest("two requests in one write", send_twice, open_it, length + chunked)
    for title, data in smugglers(host):
        (end, got), took = timed(lambda d=data: answer_to(open_it, d), lambda r: b"GET /smuggled" in r[1], 1)
        check(f"{title}: {end} in {took * 1000:.0f} ms", b"GET /smuggled" not in got and took < 1, got)
    honest("still", send_to, open_it, length)


def answer_to(open_it, data):
    with open_it() as s:
        return answer_and_more(s, data)


def answer_and_more(s, data):
    """The answer, and what comes within a moment after it: the hidden request would be answered."""
    got = b""
    try:
        s.sendall(data)
        got = read_all(s, whole)
        s.settimeout(0.03)
        got += read_all(s)
    except TimeoutError:
        if not got:
            return "nothing came", b""
    except OSError as e:
        return repr(e), got
    return "an answer" if got else "closed", got


def send_twice(open_it, data):
    with open_it() as s:
        got = talk(s, data, lambda got: got.count(b"UPSTREAM") == 2)
        return got if got.count(MARK) == 2 else b""


# ---- whose server it is: the TLS handshake ---------------------------------------------------


def hello(name):
    out = ssl.MemoryBIO()
    tls = client_tls(False).wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def handshake_body(data):
    return data[5:]


def records(body, size, version=b"\x03\x01"):
    return b"".join(
        b"\x16" + version + len(body[i : i + size]).to_bytes(2, "big") + body[i : i + size]
        for i in range(0, len(body), size)
    )


def add_extension(data, extra, front):
    """The hello with one more extension; every length is right."""
    body = bytearray(data[9:])
    at = 34
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at : at + 2], "big")
    at += 1 + body[at]
    n = int.from_bytes(body[at : at + 2], "big") + len(extra)
    body[at : at + 2] = n.to_bytes(2, "big")
    body[at + 2 : at + 2] = extra if front else b""
    body += b"" if front else extra
    return records(b"\x01" + len(body).to_bytes(3, "big") + bytes(body), 16384)


def sni(*names):
    entries = b"".join(b"\0" + len(n).to_bytes(2, "big") + n for n in names)
    entries = len(entries).to_bytes(2, "big") + entries
    return b"\0\0" + len(entries).to_bytes(2, "big") + entries


def sslv2_hello():
    body = b"\x01\x03\x03" + (9).to_bytes(2, "big") + b"\0\0" + (16).to_bytes(2, "big") + b"\0\0\x2f\0\xc0\x2f\0\0\x9c" + bytes(16)
    return (0x8000 | len(body)).to_bytes(2, "big") + body


def hellos(host):
    other = hello(OTHER)
    none = hello(None)
    warning = b"\x15\x03\x01\x00\x02\x01\x5a"
    yield "another name", other
    yield "no name", none
    yield "two names, the right one first", add_extension(none, sni(host.encode(), OTHER.encode()), True)
    yield "two names, the right one last", add_extension(none, sni(OTHER.encode(), host.encode()), True)
    yield "the extension twice, the other first", add_extension(hello(host), sni(OTHER.encode()), True)
    yield "the extension twice, the other last", add_extension(hello(host), sni(OTHER.encode()), False)
    yield "a NUL in the name", add_extension(none, sni(OTHER.encode() + b"\0." + host.encode()), True)
    yield "an empty name", add_extension(none, sni(b""), True)
    yield "an address as the name", add_extension(none, sni(b"45.45.0.2"), True)
    yield "in records of one byte", records(handshake_body(other), 1)
    yield "in records of 50", records(handshake_body(other), 50)
    yield "an alert first", warning + other
    yield "four alerts first", warning * 4 + other
    yield "an alert and no name", warning + none
    yield "a change of ciphers first", b"\x14\x03\x01\x00\x01\x01" + other
    yield "application data first", b"\x17\x03\x01\x00\x01\x00" + other
    yield "a heartbeat first", b"\x18\x03\x01\x00\x03\x01\x00\x00" + other
    yield "an empty record first", b"\x16\x03\x01\x00\x00" + other
    yield "an empty alert first", b"\x15\x03\x01\x00\x00" + other
    yield "the right one behind", other + hello(host)
    yield "a record of version 2.1", b"\x16\x02\x01" + other[3:]
    yield "a record of version 0.1", b"\x16\x00\x01" + other[3:]
    yield "a record of version 15.1", b"\x16\x0f\x01" + other[3:]
    yield "a record of version 3.9", b"\x16\x03\x09" + other[3:]
    yield "an alert of version 2.1", b"\x15\x02\x01" + warning[3:] + other
    yield "SSL 2.0", sslv2_hello()
    yield "line feeds first", b"\r\n" + other
    yield "a longer hello than it says", other[:8] + bytes([max(other[8] - 1, 0)]) + other[9:]


def shake(host, data, port=443):
    """A ServerHello counts as through."""
    with dial(host, port) as s:
        s.sendall(data)
        got = s.recv(5)
        if got[:1] != b"\x16":
            return got
        time.sleep(0.1)  # we end with a reset, which must not overtake the hello upstream
        return MARK


def shake_bytewise(host, data):
    with dial(host, 443) as s:
        for i in range(len(data)):
            s.sendall(data[i : i + 1])
        got = s.recv(5)
        return MARK if got[:1] == b"\x16" else got


def handshakes(host):
    honest("the name", shake, host, hello(host))
    honest("in two records", shake, host, records(handshake_body(hello(host)), 200))
    honest("byte by byte", shake_bytewise, host, hello(host))
    for title, data in hellos(host):
        refused(title, shake, host, data)
    refused("byte by byte", shake_bytewise, host, hello(OTHER))
    honest("still", shake, host, hello(host))


# ---- paths --------------------------------------------------------------------------------


def paths():
    """good.test may be asked for /ok and below; /ok/no is denied by an earlier rule."""
    honest("allowed", get, "good.test", 80, "/ok/x")
    for path in ("/secret", "/ok/../secret", "/ok/%2e%2e/secret", "/ok/..%2fsecret", "/ok%2f..%2fsecret", "//secret", "/secret/ok",
                 "/ok/..;/secret", "/ok\\..\\secret", "/ok/%5c../secret", "/ok/no", "/ok//no", "/ok/%6eo", "/ok/no;x", "/ok%2fno",
                 "/ok/./no", "/%6fk/no", "/ok/no/", "/ok/no%00", "/ok/no%0a", "/ok/no%", "/ok/no%zz", "/OK", "http://good.test/secret",
                 "http://good.test?/ok", "*", "/ok#/../secret", ""):
        refused(repr(path), get, "good.test", 80, path)
    for method in ("PUT", "DELETE", "get", "GETT", "TRACE", "PATCH", "PURGE"):
        refused(method, lambda m=method: get("good.test", 80, "/ok", method=m))
    refused("an override", lambda: get("good.test", 80, "/secret", fields=["X-HTTP-Method-Override: DELETE"]))


# ---- a server that misbehaves ----------------------------------------------------------------

BROKEN = """hdr-nul hdr-cr hdr-lf hdr-fold hdr-space hdr-none hdr-huge hdr-many hdr-endless hdr-line status-line
cl-te cl-two cl-list cl-minus cl-plus cl-huge te-other te-twice chunk-size chunk-minus chunk-0x chunk-huge chunk-end chunk-lf
chunk-none chunk-line chunk-trailers cut-head cut-body cut-chunk cut-last nothing 101 1xx status version noise""".split()


def broken(fetch, host, port, kind):
    """Nothing that a program could take for a whole, good answer."""
    got = fetch(host, port, "/" + kind)
    good = whole(got) and got[9:10] == b"2" and b"denied by cove" not in got
    return MARK if good or b"INJECTED" in got else b""


def then(host, tls, kind):
    """What came behind the answer is not the answer to the next request."""
    with (dial_tls(host, 443) if tls else dial(host, 80)) as s:
        port = 443 if tls else 80
        method = "HEAD" if kind == "head" else "GET"
        s.sendall(request(host, port, "/" + kind, method))
        got = read_all(s, lambda got: b"\r\n\r\n" in got)
        time.sleep(0.2)
        try:
            s.sendall(request(host, port, "/ok"))
            got += read_all(s, lambda got: got.endswith(b"/ok key=") or b"INJECTED" in got)
        except OSError:
            pass
        return MARK if b"INJECTED" in got else got.replace(MARK, b"")


def hostile(kind):
    tls = kind == "tls"
    host, port, fetch = "ok.wild.test", 443 if tls else 80, get_tls if tls else get
    honest("an honest answer", fetch, host, port)
    honest("a large one", fetch, host, port, "/large")
    for what in BROKEN:
        refused(what, broken, fetch, host, port, what)
    for what in ("two", "late", "204", "304", "head"):
        refused("then, " + what, then, host, tls, what)
    slow = [dial_tls(host, port) if tls else dial(host, port) for _ in range(5)]
    for s in slow:
        s.sendall(request(host, port, "/drip"))
    honest("while others drip", fetch, host, port)
    for s in slow:
        s.close()
    honest("still", fetch, host, port)


def certificates(*names):
    honest("a good certificate", get_tls, "ok.wild.test", 443)
    for n in names:
        refused(n, get_tls, n + ".wild.test", 443)
    honest("still", get_tls, "ok.wild.test", 443)


def upgrade():
    """WebSocket passes after its request was judged; only then."""
    ask = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"]
    honest("asked for", lambda: get("ok.wild.test", 80, "/101", fields=ask))
    refused("refused path", lambda: get("good.test", 80, "/101", fields=ask))
    refused("not asked for", get, "ok.wild.test", 80, "/101")


main(globals())
