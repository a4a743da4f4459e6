# SPDX-License-Identifier: Apache-2.0
"""http_server.py LOG CERT KEY - a server that does as it is asked, also badly.

Plain on 8080, TLS on 8443. Every byte that arrives is appended to LOG. The path says what
to do: /echo answers with the request's head and body, /gzip with them compressed, the
others are what a hostile server does.
"""
import gzip
import re
import socketserver
import ssl
import sys
import threading
import time

log, cert, key = sys.argv[1:4]


def endless(h):
    h.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        h.wfile.write(b"X-Filler: " + b"y" * 1000 + b"\r\n")


def websocket(h):
    h.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                  b"Upgrade: websocket\r\n\r\nhello")
    while True:
        data = h.connection.recv(4096)
        if not data:
            return
        h.wfile.write(data.upper())


EVIL = {
    b"/endless": endless,
    b"/websocket": websocket,
    b"/silent": lambda h: time.sleep(30),
    b"/close": lambda h: None,
    b"/not-http": lambda h: h.wfile.write(b"SSH-2.0-x\r\n\r\n"),
    b"/two-lengths": lambda h: h.wfile.write(
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
    b"/both": lambda h: h.wfile.write(
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc"),
    b"/bare-lf": lambda h: h.wfile.write(b"HTTP/1.1 200 OK\nX: y\n\nabc"),
    b"/bad-chunk": lambda h: h.wfile.write(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nZZ\r\n"),
    b"/cut": lambda h: h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nabc"),
    b"/second": lambda h: h.wfile.write(
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
        b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned"),
    b"/switch": lambda h: h.wfile.write(
        b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
}


class Handler(socketserver.StreamRequestHandler):
    def line(self):
        data = self.rfile.readline(70000)
        with open(log, "ab") as f:
            f.write(data)
        return data

    def take(self, n):
        data = self.rfile.read(n)
        with open(log, "ab") as f:
            f.write(data)
        return data

    def body(self, head):
        if re.search(rb"(?i)\r\nexpect:", head):
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        m = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        if m:
            return self.take(int(m[1]))
        out = b""
        while re.search(rb"(?i)\r\ntransfer-encoding: chunked", head):
            n = int(self.line(), 16)
            out += self.take(n)
            self.line()
            if not n:
                break
        return out

    def one(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            data = self.line()
            if not data:
                return False
            head += data
        path = head.split()[1].split(b"?")[0]
        if path in EVIL:
            EVIL[path](self)
            return False
        data = head + self.body(head)
        extra = b""
        if path == b"/gzip":
            data, extra = gzip.compress(data), b"Content-Encoding: gzip\r\n"
        self.wfile.write(b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n" % (extra, len(data)))
        self.wfile.write(data)
        return True

    def handle(self):
        try:
            while self.one():
                pass
        except (OSError, ValueError):
            pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    tls = None

    def get_request(self):
        sock, address = super().get_request()
        sock.settimeout(30)
        return (self.tls.wrap_socket(sock, server_side=True) if self.tls else sock), address

    def handle_error(self, request, client_address):
        pass


plain, secure = Server(("0.0.0.0", 8080), Handler), Server(("0.0.0.0", 8443), Handler)
secure.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
secure.tls.load_cert_chain(cert, key)
threading.Thread(target=secure.serve_forever, daemon=True).start()
plain.serve_forever()
