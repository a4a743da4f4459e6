# SPDX-License-Identifier: Apache-2.0
"""What the attacks on the egress share; run inside a sandbox.

An attempt is a function that gives back what it received, or raises. It got THROUGH if the
server's mark is in that; it HANGS if nothing came within its time; else it is REFUSED.
"""
import functools
import socket
import ssl
import sys
import time

LIMIT = 1.0  # seconds: a refusal does not take longer
TRIES = 3  # of which one has to be in time: a host stands still for a moment now and then
PATIENCE = 4.0
OWN_KERNEL = False  # a machine: net_attack.sh says so
MARK = b"UPSTREAM"
THROUGH, REFUSED, HANGS = "through", "refused", "hangs"
failures = 0


def verdict(fn, *args):
    try:
        got = fn(*args)
    except (TimeoutError, socket.timeout) as e:
        return HANGS, repr(e)
    except (OSError, ssl.SSLError, EOFError) as e:
        return REFUSED, repr(e)
    text = got if isinstance(got, bytes) else repr(got).encode()
    return (THROUGH if MARK in text else REFUSED), repr(text[:200])


def timed(fn, settled, limit=LIMIT):
    """What fn gave and how long that took: the first time that was in time, or settled it anyhow."""
    for _ in range(TRIES):
        begin = time.monotonic()
        got = fn()
        took = time.monotonic() - begin
        if took < limit or settled(got):
            break
        print(f"    after {took * 1000:.0f} ms, which is too long")
    return got, took


def expect(want, title, fn, *args, limit=LIMIT):
    """The attempt ends as it should, each time that it is made, and once in time."""
    global failures
    (got, detail), took = timed(lambda: verdict(fn, *args), lambda r: r[0] != want or want == THROUGH, limit)
    good = got == want and (took < limit or want == THROUGH)
    failures += not good
    print(f"{'ok ' if good else 'BAD'} {title}: {got} in {took * 1000:.0f} ms {'' if good else detail}")
    return good


def honest(title, fn, *args):
    return expect(THROUGH, "control, " + title, fn, *args)


def refused(title, fn, *args, limit=LIMIT):
    return expect(REFUSED, title, fn, *args, limit=limit)


def kept_in(title, fn, *args):
    """Where root rules the kernel, what it sends may as well get lost there."""
    if not OWN_KERNEL:
        return refused(title, fn, *args)
    got, detail = verdict(fn, *args)
    return check(title, got in (REFUSED, HANGS), detail)


def check(title, good, detail=""):
    global failures
    failures += not good
    print(f"{'ok ' if good else 'BAD'} {title} {'' if good else detail}")


def dial(host, port, family=0, patience=PATIENCE):
    """As programs do: look it up, take the first address."""
    info = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0]
    s = socket.socket(info[0], socket.SOCK_STREAM)
    s.settimeout(patience)
    s.connect(info[4])
    return s


def read_all(s, until=None, most=1 << 20):
    got = b""
    while len(got) < most and not (until and until(got)):
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            if got:
                break
            raise
        if not piece:
            break
        got += piece
    return got


def whole(got):
    """One response with a length, or with chunks, is here."""
    head, sep, body = got.partition(b"\r\n\r\n")
    low = head.lower()
    if not sep:
        return False
    if b"content-length:" in low:
        return len(body) >= int(low.split(b"content-length:")[1].split(b"\r\n")[0])
    return b"chunked" in low and body.endswith(b"0\r\n\r\n")


def talk(s, data, until=whole):
    s.sendall(data)
    return read_all(s, until)


@functools.cache
def client_tls(verify):
    """Reading the bundle takes long: once."""
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def dial_tls(host, port, verify=True):
    return client_tls(verify).wrap_socket(dial(host, port), server_hostname=host)


def request(host, port, path="/ok", method="GET", fields=(), body=b"", version="HTTP/1.1"):
    lines = [f"{method} {path} {version}", f"Host: {host}:{port}", *fields]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin1") + b"\r\n\r\n" + body


def get(host, port, path="/ok", **kw):
    with dial(host, port) as s:
        return talk(s, request(host, port, path, **kw))


def get_tls(host, port, path="/ok", **kw):
    with dial_tls(host, port) as s:
        return talk(s, request(host, port, path, **kw))


def main(attacks):
    attacks[sys.argv[1]](*sys.argv[2:])
    sys.exit(1 if failures else 0)
