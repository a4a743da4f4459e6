#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that writes down every byte it gets, and misbehaves where the path says so.

usage: net_upstream.py LOG PLAIN-PORTS TLS-PORTS [CERTIFICATES]     (ports: 80,8080)
       net_upstream.py --readings LOG     every request in the log, as any server could read it

CERTIFICATES is a directory: NAME.pem and NAME.key for the server name NAME, default.* for others.
The log has a line of JSON for each connection, server name and piece of data (latin1). It
reads requests as the most careless server would. --readings prints method, target and Host of
each request in every connection, once with Content-Length winning and once with
Transfer-Encoding.
"""
import base64
import gzip
import json
import os
import re
import socket
import ssl
import sys
import threading
import time
import urllib.parse

PAGE = os.environ.get("UPSTREAM_PAGE", "UPSTREAM").encode()


class Log:
    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")
        self.lock = threading.Lock()

    def write(self, **what):
        with self.lock:
            print(json.dumps(what), file=self.file, flush=True)


# ---- requests, as a careless server reads them ------------------------------------------------


def head_of(data):
    """(lines, rest) or None; bare LF ends a line too."""
    data = data.lstrip(b"\r\n \t\v\f")
    end = re.search(rb"\r?\n\r?\n", data)
    if not end:
        return None
    return re.split(rb"\r?\n", data[: end.start()]), data[end.end() :]


def fields_of(lines):
    fields = {}
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        fields.setdefault(name.strip().lower(), []).append(value.strip())
    return fields


def unchunk(data):
    """(content, rest) or None: not complete. What is no size ends it."""
    content = b""
    while True:
        line, lf, rest = data.partition(b"\n")
        if not lf:
            return None
        try:
            size = int(re.match(rb"\s*(?:0x)?([0-9a-fA-F]+)", line)[1], 16)
        except TypeError:
            return content, data
        if size == 0:
            end = re.search(rb"(?:^|\n)\r?\n", rest)
            return (content, rest[end.end() :]) if end else None
        if len(rest) < size:
            return None
        content += rest[:size]
        data = re.sub(rb"^\r?\n", b"", rest[size:], count=1)


def body_of(fields, rest, length_wins):
    length = fields.get(b"content-length")
    chunked = any(b"chunked" in v.lower() for v in fields.get(b"transfer-encoding", []))
    if chunked and not (length and length_wins):
        return unchunk(rest)
    digits = re.search(rb"\d+", length[0]) if length else None
    n = int(digits[0]) if digits else 0
    return (rest[:n], rest[n:]) if len(rest) >= n else None


def readings(data):
    for length_wins in (True, False):
        rest = data
        while True:
            head = head_of(rest)
            if not head:
                break
            lines, rest = head
            fields = fields_of(lines)
            words = lines[0].split()
            host = fields.get(b"host", [b"-"])
            yield b" ".join(words[:2]).decode("latin1") + " " + b",".join(host).decode("latin1")
            body = body_of(fields, rest, length_wins)
            if not body:
                break
            rest = body[1]


def print_readings(path):
    streams = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            piece = json.loads(line)
            streams.setdefault(piece.get("conn"), bytearray()).extend(piece.get("data", "").encode("latin1"))
    for text in sorted({r for data in streams.values() for r in readings(bytes(data))}):
        print(text)


# ---- answers -------------------------------------------------------------------------------


def response(body, fields=(), status="200 OK"):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join(lines).encode("latin1") + b"\r\n\r\n" + body


def endless(s, first, piece):
    s.sendall(first)
    while True:
        s.sendall(piece)


def drip(s, data):
    for i in range(len(data)):
        s.sendall(data[i : i + 1])
        time.sleep(0.2)


def chunks(*pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


OK = b"HTTP/1.1 200 OK\r\n"
TE = OK + b"Transfer-Encoding: chunked\r\n\r\n"
HIDDEN = response(b"INJECTED")
FIXED = {
    "hdr-nul": OK + b"X: a\0b\r\nContent-Length: 8\r\n\r\nUPSTREAM",
    "hdr-cr": OK + b"X: a\rSet-Cookie: INJECTED\r\nContent-Length: 8\r\n\r\nUPSTREAM",
    "hdr-lf": b"HTTP/1.1 200 OK\nContent-Length: 8\n\nUPSTREAM",
    "hdr-fold": OK + b"X: a\r\n b\r\nContent-Length: 8\r\n\r\nUPSTREAM",
    "hdr-space": OK + b"Content-Length : 8\r\n\r\nUPSTREAM",
    "hdr-none": OK + b"nonsense\r\nContent-Length: 8\r\n\r\nUPSTREAM",
    "hdr-huge": OK + b"X: " + b"a" * (1 << 20) + b"\r\nContent-Length: 8\r\n\r\nUPSTREAM",
    "hdr-many": OK + b"".join(b"X%d: y\r\n" % i for i in range(2000)) + b"Content-Length: 8\r\n\r\nUPSTREAM",
    "cl-te": OK + b"Content-Length: 8\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nUPSTREAM\r\n0\r\n\r\n",
    "cl-two": OK + b"Content-Length: 8\r\nContent-Length: 9\r\n\r\nUPSTREAM",
    "cl-list": OK + b"Content-Length: 8, 8\r\n\r\nUPSTREAM",
    "cl-minus": OK + b"Content-Length: -8\r\n\r\nUPSTREAM",
    "cl-plus": OK + b"Content-Length: +8\r\n\r\nUPSTREAM",
    "cl-huge": OK + b"Content-Length: 99999999999999999999\r\n\r\nUPSTREAM",
    "te-other": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n8\r\nUPSTREAM\r\n0\r\n\r\n",
    "te-twice": OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunk-size": TE + b"zz\r\nUPSTREAM\r\n0\r\n\r\n",
    "chunk-minus": TE + b"-8\r\nUPSTREAM\r\n0\r\n\r\n",
    "chunk-0x": TE + b"0x8\r\nUPSTREAM\r\n0\r\n\r\n",
    "chunk-huge": TE + b"ffffffffffffffff8\r\nUPSTREAM\r\n0\r\n\r\n",
    "chunk-end": TE + b"8\r\nUPSTREAMxx0\r\n\r\n",
    "chunk-lf": TE + b"8\nUPSTREAM\n0\n\n",
    "chunk-none": TE,
    "cut-head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "cut-body": OK + b"Content-Length: 1000\r\n\r\nten bytes.",
    "cut-chunk": TE + b"3e8\r\nten bytes.",
    "cut-last": TE + b"8\r\nUPSTREAM\r\n",
    "nothing": b"",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nUPSTREAM",
    "status": b"HTTP/1.1 99999 X\r\nContent-Length: 8\r\n\r\nUPSTREAM",
    "version": b"HTTP/3.0 200 OK\r\nContent-Length: 8\r\n\r\nUPSTREAM",
    "noise": bytes(range(256)) * 8 + b"\r\n\r\n",
    "two": response(b"first") + HIDDEN,
    "204": b"HTTP/1.1 204 No Content\r\nContent-Length: 8\r\n\r\n" + HIDDEN,
    "304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 8\r\n\r\n" + HIDDEN,
    "head": response(b"UPSTREAM") + HIDDEN,
    "gzip": response(gzip.compress(PAGE), ["Content-Encoding: gzip"]),
}
KEEPS = {"two", "204", "304", "head", "gzip"}
ENDLESS = {
    "hdr-endless": (OK, b"X: " + b"a" * 1000 + b"\r\n"),
    "hdr-line": (OK + b"X: ", b"a" * 4096),
    "1xx": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunk-line": (TE + b"8;", b"a" * 4096),
    "chunk-trailers": (TE + b"0\r\n", b"X: y\r\n" * 500),
    "status-line": (b"HTTP/1.1 200 ", b"a" * 4096),
}


def writings(value):
    """A value as a server may show it."""
    text = value.decode("latin1")
    yield from (value, base64.b64encode(value), base64.b64encode(b"x" + value), base64.b64encode(b"xy" + value))
    yield from (base64.urlsafe_b64encode(value), value.hex().encode(), value.hex().upper().encode())
    yield urllib.parse.quote(value, safe="").encode()
    yield urllib.parse.quote_plus(value).encode()
    yield json.dumps(text).encode()


def echo(kind, s, head, fields, body):
    """What was sent comes back: x-key, the query and the body."""
    key = fields.get(b"x-key", [b""])[0]
    query = head[0].split()[1].partition(b"?")[2]
    seen = b"\n".join([PAGE, b"key=" + key, b"query=" + query, b"body=" + body])
    if kind == "echo":
        s.sendall(response(seen + b"\n" + b"\n".join(writings(key))))
    elif kind == "echo-header":
        s.sendall(response(PAGE, [f"X-{i}: {w.decode('latin1')}" for i, w in enumerate(writings(key))]))
    elif kind == "echo-reason":
        s.sendall(response(PAGE, status="200 " + key.decode("latin1")))
    elif kind == "echo-chunks":
        s.sendall(TE)
        s.sendall(chunks(PAGE)[:-5])
        for i in range(len(seen)):
            s.sendall(b"1\r\n" + seen[i : i + 1] + b"\r\n")
            time.sleep(0.001)
        s.sendall(b"0\r\nX-Trailer: " + key + b"\r\n\r\n")
    elif kind == "echo-close":
        s.sendall(OK + b"Connection: close\r\n\r\n" + seen)
        return False
    elif kind == "echo-gzip":
        s.sendall(response(gzip.compress(seen), ["Content-Encoding: gzip"]))
    elif kind == "echo-interim":
        s.sendall(b"HTTP/1.1 103 Early\r\nLink: " + key + b"\r\n\r\n" + response(PAGE))
    elif kind == "echo-extension":
        s.sendall(TE + b"8;x=" + key + b"\r\nUPSTREAM\r\n0\r\n\r\n")
    elif kind == "echo-large":
        s.sendall(response(b"".join(b"x" * n + key for n in range(16370, 16390)) + PAGE))
    elif kind == "echo-redirect":
        s.sendall(response(PAGE, ["Location: https://elsewhere.test/?k=" + key.decode("latin1")], "302 Found"))
    elif kind == "echo-store":
        Server.stored = key
        s.sendall(response(PAGE))
    elif kind == "echo-fetch":
        s.sendall(response(PAGE + b" " + Server.stored))
    elif kind == "echo-websocket":
        s.sendall(FIXED["101"].replace(b"Upgrade\r\n\r\n", b"Upgrade\r\nX: " + key + b"\r\n\r\n"))
        return False
    elif kind == "echo-error":
        s.sendall(b"HTTP/1.1 200 OK\r\nX: " + key + b"\0\r\n\r\n")
        return False
    return True


def misbehave(kind, s, head, fields, body):
    """True: the connection goes on."""
    if kind.startswith("echo"):
        return echo(kind, s, head, fields, body)
    if kind in FIXED:
        s.sendall(FIXED[kind])
        return kind in KEEPS
    if kind in ENDLESS:
        endless(s, *ENDLESS[kind])
    elif kind == "drip":
        drip(s, response(PAGE * 100))
    elif kind == "late":
        s.sendall(response(b"first"))
        time.sleep(0.1)
        s.sendall(HIDDEN)
        return True
    elif kind == "large":
        s.sendall(response(PAGE * (1 << 20)))
        return True
    else:
        line = b" ".join(head[0].split()[:2])
        s.sendall(response(PAGE + b" " + line + b" key=" + fields.get(b"x-key", [b""])[0]))
        return True
    return False


# ---- connections -----------------------------------------------------------------------------


class Server:
    stored = b""

    def __init__(self, log, certificates):
        self.log, self.certificates = log, certificates
        self.count, self.lock = 0, threading.Lock()
        self.contexts = {}
        if certificates:
            for name in os.listdir(certificates):
                if name.endswith(".pem") and os.path.exists(f"{certificates}/{name[:-4]}.key"):
                    self.contexts[name[:-4]] = self.context(name[:-4])

    def context(self, name):
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        c.minimum_version = ssl.TLSVersion.TLSv1_2
        c.set_ciphers("DEFAULT@SECLEVEL=0")
        c.load_cert_chain(f"{self.certificates}/{name}.pem", f"{self.certificates}/{name}.key")
        return c

    def pick(self, s, name, conn):
        self.log.write(conn=conn, event="sni", sni=name)
        s.context = self.contexts.get(name, self.contexts["default"])

    def handle(self, s, port, tls):
        with self.lock:
            self.count += 1
            conn = self.count
        self.log.write(conn=conn, port=port, event="open", local=s.getsockname()[0])
        try:
            if tls:
                c = self.context("default")
                c.sni_callback = lambda s, name, _: self.pick(s, name, conn)
                s.settimeout(20)
                self.log.write(conn=conn, port=port, event="tls", first=s.recv(5, socket.MSG_PEEK).hex())
                s = c.wrap_socket(s, server_side=True)
            self.serve(s, conn, port)
        except (OSError, ssl.SSLError, ValueError) as e:
            self.log.write(conn=conn, port=port, event="end", why=repr(e))
        finally:
            s.close()

    def serve(self, s, conn, port):
        data = b""
        while True:
            piece = s.recv(65536)
            if not piece:
                return
            self.log.write(conn=conn, port=port, data=piece.decode("latin1"))
            data += piece
            while True:
                head = head_of(data)
                if not head:
                    break
                lines, rest = head
                fields = fields_of(lines)
                body = body_of(fields, rest, False)
                if not body:
                    break
                data = body[1]
                words = lines[0].split() + [b"", b""]
                kind = words[1].decode("latin1").partition("?")[0].strip("/")
                if not misbehave(kind, s, lines, fields, body[0]):
                    return

    def listen(self, port, tls):
        server = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
        while True:
            s, _ = server.accept()
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.handle, args=(s, port, tls), daemon=True).start()


def main():
    if sys.argv[1] == "--readings":
        print_readings(sys.argv[2])
        return
    server = Server(Log(sys.argv[1]), sys.argv[4] if len(sys.argv) > 4 else None)
    for ports, tls in ((sys.argv[2], False), (sys.argv[3], True)):
        for port in filter(None, ports.split(",")):
            threading.Thread(target=server.listen, args=(int(port), tls), daemon=True).start()
    threading.Event().wait()


main()
