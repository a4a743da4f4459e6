# SPDX-License-Identifier: Apache-2.0
"""TLS that is opened, with a secret swapped in, against an nginx that does the same work:
TLS in, a header set, verified TLS out."""
import os

import egress
import netways
import report
from netservers import BODY, KEY, Servers
from netways import COVE, DIRECT, HOST

PROXY = "nginx reverse proxy"
SPEC = """secrets:
  - {{name: BENCH_KEY, hosts: [{host}], from: file, path: {key}}}
network:
  mode: allowlist
  trust: [{ca}]
  rules:
    - {{id: api, host: {host}, port: {port}}}
"""


class World:
    """An upstream, a reverse proxy before it, and the ways to them."""

    def __init__(self, who):
        self.who, self.servers, self.ways = who, Servers(who), []
        self.up, self.proxy = netways.free_ports(2)
        try:
            self.servers.certificates()
            if not (self.servers.upstream(self.up) and self.servers.proxy(self.proxy, self.up)):
                raise RuntimeError("needs nginx: tools/setup.sh bench")
            self.start()
        except Exception:
            self.close()
            raise

    def start(self):
        key = os.path.join(self.who.base, "bench-key")
        with open(key, "w") as f:
            f.write(KEY)
        self.who.own()
        path = netways.spec(self.who, "tls.yaml", SPEC.format(
            host=HOST, key=key, ca=os.path.join(self.servers.tls, "ca.pem"), port=self.up))
        self.ways = [netways.Way(self.who, DIRECT, "127.0.0.1", ["sh"]),
                     netways.cove_way(self.who, path)]

    def cases(self, quick):
        direct, cove = self.ways
        for what, _, path, n, rest in egress.HTTP:
            tail = f"{path} {egress.amount(n, quick)}{rest}"
            header = lambda value: f'./httpload --tls --header "X-Api-Key: {value}" {what}'
            yield direct, what, f"{header(KEY)} 127.0.0.1 {self.up} {tail}", None
            yield direct, what, f"{header('none')} 127.0.0.1 {self.proxy} {tail}", PROXY
            yield cove, what, f"{header('$BENCH_KEY')} {HOST} {self.up} {tail}", None

    def close(self):
        for w in self.ways:
            w.close()
        self.servers.close()


def run(places, opts):
    """Topic net-tls."""
    who, rounds = egress.ready(places.user or places.main), 2 if opts.quick else 7
    print("bench: TLS opened, a secret swapped in", flush=True)
    world = World(who)
    try:
        seen = world.ways[1].line("echo $BENCH_KEY")
        if not seen or seen == KEY:
            raise RuntimeError("the sandbox has no placeholder")
        mid, failed = netways.measure(list(world.cases(opts.quick)), rounds)
    finally:
        world.close()
    for what, row in failed:
        raise RuntimeError(f"{row}: {what}: {failed[(what, row)]} requests failed")
    ratio = lambda what, other: mid[(what, COVE)] / mid[(what, other)]
    rows = egress.rows_of((DIRECT, PROXY, COVE), egress.HTTP, mid)
    rows += [[f"cove / {other}"] + [f"{ratio(m[0], other):.2f}" for m in egress.HTTP]
             for other in (DIRECT, PROXY)]
    return {"title": "TLS opened, a secret swapped in",
            "tables": [{"title": "", "head": [""] + [m[1] for m in egress.HTTP], "rows": rows}],
            "bars": [report.bar(f"large body, cove / {PROXY}", ratio("bulk", PROXY), 0.4,
                                at_least=True),
                     report.bar(f"small requests a second, cove / {PROXY}", ratio("rate", PROXY),
                                0.4, at_least=True),
                     report.bar("added to a small request, median",
                                mid[("ping", COVE)] - mid[("ping", DIRECT)], 500, " µs")],
            "data": egress.flat(mid),
            "notes": [f"Median of {rounds} rounds, interleaved, an ordinary user. The upstream is "
                      "one nginx worker with TLS that answers only to the right key. The reverse "
                      "proxy is one nginx worker: TLS in, that header set, verified TLS out on "
                      "kept connections, answers not stored. cove: the client inside sends a "
                      "placeholder; requests and answers are parsed, the key is put in, and every "
                      f"answer is searched for it. The large body has {BODY >> 20} MiB of text."]}
