# SPDX-License-Identifier: Apache-2.0
"""The way out of a sandbox against other ways: connections, round trips, bulk; plain, as TLS
that passes through, and as HTTP that is read."""
import shutil

import netways
import report
from netservers import BODY, Servers
from netways import COVE, DIRECT, HOST, SPLICED, TAP

PASS = "cove, TLS passed through"
# What, head of the column, arguments after host and port, factor of --quick.
MEASURES = (("connect", "new connection, p50 µs", 1000, ""),
            ("rate", "connections a second, 16 at a time", 4000, " 16"),
            ("ping", "round trip, p50 µs", 4000, ""),
            ("bulk", "down, Gbit/s", 2048, ""),
            ("push", "up, Gbit/s", 2048, ""))
HTTP = (("ping", "request on a kept connection, p50 µs", "/1", 4000, ""),
        ("rate", "requests a second, 16 connections", "/1", 1000, " 16"),
        ("bulk", "body, Gbit/s", "/big", 16, ""))


def ready(who):
    for program in ("netload", "httpload"):
        shutil.copy2(who.program(program), who.work)
    who.own()
    return who


def amount(n, quick):
    return max(2, n // 4) if quick else n


class World:
    """Servers, and every way to them that there is here; a port a way, so that the closed
    connections of one are not in the way of another."""

    def __init__(self, who, with_peers=True):
        self.who, self.servers, self.ways = who, Servers(who), []
        self.tcp = dict(zip((DIRECT, COVE, PASS, TAP, SPLICED, netways.SLIRP),
                            netways.free_ports(6)))
        self.http = netways.free_ports(1)[0]
        try:
            for port in self.tcp.values():
                self.servers.netload(port)
            self.nginx = with_peers and self.servers.plain(self.http)
            self.start(with_peers)
        except Exception:
            self.close()
            raise

    def start(self, with_peers):
        own = [f"{{id: plain, host: {HOST}, port: {self.tcp[COVE]}, protocol: tcp}}",
               f"{{id: tls, host: {HOST}, port: {self.tcp[PASS]}}}",
               f"{{id: http, host: {HOST}, port: {self.http}}}"]
        path = netways.spec(self.who, "net.yaml", netways.rules(own))
        self.ways = [netways.Way(self.who, DIRECT, "127.0.0.1", ["sh"]),
                     netways.cove_way(self.who, path)]
        if with_peers:
            self.ways += netways.peers(self.who, {SPLICED: [self.tcp[SPLICED], self.http]})
        for w in self.ways:
            if not w.ready(self.tcp[w.name]) and w.name in (DIRECT, COVE):
                raise RuntimeError(f"{w.name}: {w.why}")

    def way(self, name):
        return next(w for w in self.ways if w.name == name)

    def close(self):
        for w in self.ways:
            w.close()
        self.servers.close()


def tcp_cases(world, quick):
    for w in (w for w in world.ways if not w.why):
        for what, _, n, rest in MEASURES:
            yield (w, what, f"./netload {what} {w.host} {world.tcp[w.name]} "
                            f"{amount(n, quick)}{rest}", None)
    cove = world.way(COVE)
    for what, _, n, rest in MEASURES:
        yield (cove, what, f"./netload --hello {HOST} {what} {HOST} {world.tcp[PASS]} "
                           f"{amount(n, quick)}{rest}", PASS)


def http_cases(world, quick):
    for w in (w for w in world.ways if not w.why and world.nginx):
        for what, _, path, n, rest in HTTP:
            yield (w, what, f"./httpload {what} {w.host} {world.http} {path} "
                            f"{amount(n, quick)}{rest}", None)


def rows_of(names, measures, mid):
    text = lambda v: "-" if v is None else f"{v:.1f}" if v < 1000 else f"{v:.0f}"
    return [[n] + [text(mid.get((m[0], n))) for m in measures] for n in names]


def bars_of(tcp, http, failed):
    """A value that needs a peer that is not here stays unmeasured."""
    def over(table, what, row, other):
        a, b = table.get((what, row)), table.get((what, other))
        return a / b if a and b else None
    bars = []
    for row, table in ((COVE, tcp), (PASS, tcp), ("cove, HTTP", http)):
        key = COVE if table is http else row
        for peer, limit in ((TAP, 2), (SPLICED, 1)):
            bars.append(report.bar(f"bulk down, {row} / {peer}", over(table, "bulk", key, peer),
                                   limit, at_least=True))
    bars.append(report.bar(f"new connection, cove / {TAP}", over(tcp, "connect", COVE, TAP), 1))
    for row in (COVE, PASS):
        bars.append(report.bar(f"connections a second, {row}", tcp[("rate", row)], 15000,
                               at_least=True))
        bars.append(report.bar(f"added to a round trip, {row}",
                               tcp[("ping", row)] - tcp[("ping", DIRECT)], 50, " µs"))
    bars.append(report.bar("connections and requests that failed, cove",
                           sum(n for (_, row), n in failed if row.startswith(COVE)), 0))
    return bars


def run(places, opts):
    """Topic net."""
    who, rounds = ready(places.user or places.main), 2 if opts.quick else 7
    print("bench: the way out", flush=True)
    world = World(who)
    try:
        tcp, failed = netways.measure(list(tcp_cases(world, opts.quick)), rounds)
        http, failed_http = netways.measure(list(http_cases(world, opts.quick)), rounds)
    finally:
        world.close()
    names = [w.name for w in world.ways if not w.why]
    tables = [{"title": "TCP", "head": [""] + [m[1] for m in MEASURES],
               "rows": rows_of(names[:2] + [PASS] + names[2:], MEASURES, tcp)}]
    if http:
        tables.append({"title": "Plain HTTP from nginx, one worker",
                       "head": [""] + [m[1] for m in HTTP], "rows": rows_of(names, HTTP, http)})
    notes = [f"Median of {rounds} rounds, all ways interleaved, servers on the host's loopback, "
             f"an ordinary user. cove has a policy of {netways.OTHER_RULES + 3} rules. A "
             "connection is measured with its first byte there and back.",
             "TLS passed through: a connection that begins with a ClientHello, whose name is "
             f"checked; no cipher takes part. The body of nginx has {BODY >> 20} MiB; cove reads "
             "and judges each request on its way, the others carry bytes.",
             "TCP: " + netways.error_note(failed) + " HTTP: " + netways.error_note(failed_http)]
    notes += [f"{w.name}: {w.why}." for w in world.ways if w.why]
    return {"title": "The way out: TCP and HTTP", "tables": tables,
            "bars": bars_of(tcp, http, [*failed.items(), *failed_http.items()]),
            "data": {"tcp": flat(tcp), "http": flat(http)}, "notes": notes}


def flat(mid):
    return {f"{row}: {what}": v for (what, row), v in mid.items()}
