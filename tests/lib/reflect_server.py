# SPDX-License-Identifier: Apache-2.0
"""reflect_server.py LOG CERT KEY - a server that shows its clients what they sent, in as many
writings as servers do. TLS on 8444. Heads and bodies are appended to LOG.

/raw      the request as it came           /form     field k of a form, decoded
/json     member k, decoded, as text       /jsonjson the body as a string in JSON
/quote    the query's k, quoted again      /html     the same, for HTML
/name     a field named as the query's k   /store    keeps the body (POST), gives it (GET), also in parts
/ws       a WebSocket that says the query's k in each frame
/redirect to https://a.wild.test/echo      /slow     "{event}\\n", "waiting", and 3 s later the end
TRACE     the head
"""
import html
import http.server
import json
import re
import ssl
import sys
import time
import urllib.parse

log, cert, key = sys.argv[1:4]
stored = b""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        out = b""
        while True:
            n = int(self.rfile.readline(), 16)
            out += self.rfile.read(n)
            self.rfile.readline()
            if not n:
                return out

    def answer(self, data, status=200, fields=()):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def part(self):
        m = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if not m:
            return self.answer(stored)
        size = len(stored)
        first = int(m[1]) if m[1] else max(0, size - int(m[2]))
        last = min(size - 1, int(m[2]) if m[1] and m[2] else size - 1)
        span = "bytes %d-%d/%d" % (first, last, size)
        return self.answer(stored[first:last + 1], 206, [("Content-Range", span)])

    def slow(self):
        self.send_response(200)
        self.send_header("Content-Length", "23")
        self.end_headers()
        for data, pause in ((b"{event}\n", 0.2), (b"waiting", 2.5), (b" the-end", 0)):
            self.wfile.write(data)
            time.sleep(pause)

    def websocket(self, text):
        self.send_response(101)
        for name, value in (("Connection", "Upgrade"), ("Upgrade", "websocket")):
            self.send_header(name, value)
        for name in ("Sec-WebSocket-Extensions",):
            if name in self.headers:
                self.send_header(name, self.headers[name])
        self.end_headers()
        for data in (b"short", text, b"x" * 200 + text, text + b"y" * 70000):
            n = len(data)
            size = bytes([n]) if n < 126 else b"\x7e" + n.to_bytes(2, "big") if n < 65536 else b"\x7f" + n.to_bytes(8, "big")
            self.wfile.write(b"\x81" + size + data)
        self.wfile.write(b"\x88\x00")
        self.close_connection = True

    def act(self):
        global stored
        head = (self.requestline + "\r\n" + str(self.headers)).encode("latin-1")
        data = self.body()
        with open(log, "ab") as f:
            f.write(head + data)
        url = urllib.parse.urlsplit(self.path)
        k = urllib.parse.parse_qs(url.query).get("k", [""])[0]
        if self.command == "TRACE":
            self.answer(head, 200, [("Content-Type", "message/http")])
        elif url.path == "/json":
            self.answer(json.loads(data)["k"].encode())
        elif url.path == "/jsonjson":
            self.answer(json.dumps({"data": data.decode()}).encode())
        elif url.path == "/form":
            self.answer(urllib.parse.parse_qs(data.decode(errors="replace"), errors="replace")["k"][0].encode())
        elif url.path == "/quote":
            self.answer(urllib.parse.quote(k).encode() + b" " + urllib.parse.quote_plus(k).encode())
        elif url.path == "/html":
            self.answer(html.escape(k).encode())
        elif url.path == "/name":
            self.answer(b"", 200, [("X-" + k, "1"), ((k + "-X").lower(), "2")])
        elif url.path == "/redirect":
            self.answer(b"", 302, [("Location", "https://a.wild.test/echo")])
        elif url.path == "/slow":
            self.slow()
        elif url.path == "/ws":
            self.websocket(k.encode())
        elif url.path == "/store":
            if self.command == "POST":
                stored = data
                self.answer(b"")
            else:
                self.part()
        else:
            self.answer(head + data)

    do_GET = do_POST = do_PUT = do_TRACE = act


server = http.server.ThreadingHTTPServer(("0.0.0.0", 8444), Handler)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(cert, key)
server.socket = tls.wrap_socket(server.socket, server_side=True)
server.serve_forever()
