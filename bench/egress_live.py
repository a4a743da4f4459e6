# SPDX-License-Identifier: Apache-2.0
"""A running egress: what ten thousand open connections hold, and how soon a saved policy of
ten thousand rules decides."""
import json
import os
import resource
import time

import egress
import netways
import report
import sandboxes
from netways import COVE, DIRECT, HOST
from sandboxes import must

CONNECTIONS = 10000
RULES = 10000
OWN_FILES = 512  # descriptors that cove-egress keeps for other things than connections
PAGE = os.sysconf("SC_PAGE_SIZE")


def descendants(pid):
    """Every process below this one."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for t in tasks:
        try:
            with open(f"/proc/{pid}/task/{t}/children") as f:
                children = [int(c) for c in f.read().split()]
        except OSError:
            continue
        for c in children:
            yield c
            yield from descendants(c)


def find_egress(pid):
    for p in descendants(pid):
        try:
            with open(f"/proc/{p}/comm") as f:
                if f.read().strip() == "cove-egress":
                    return p
        except OSError:
            pass
    raise RuntimeError("no cove-egress below cove")


def resident(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(l.split()[1]) * 1024 for l in f if l.startswith("VmRSS:"))


def kernel():
    """Bytes: of TCP's buffers, and of all kernel objects."""
    with open("/proc/net/sockstat") as f:
        words = next(l for l in f if l.startswith("TCP:")).split()
    with open("/proc/meminfo") as f:
        slab = next(int(l.split()[1]) * 1024 for l in f if l.startswith("Slab:"))
    return int(words[words.index("mem") + 1]) * PAGE, slab


def hold(way, port, count):
    """Opens count connections; how many, and what the kernel took for them."""
    before = kernel()
    held = json.loads(way.line(f"./netload hold {way.host} {port} {count}", 300))["held"]
    after = kernel()
    return held, [b - a for a, b in zip(before, after)]


def release(way):
    return json.loads(way.line("", 120))["alive"]


def possible(count):
    """How many connections the limit of descriptors allows, raised where that may be done."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = 2 * count + OWN_FILES
    if hard != resource.RLIM_INFINITY and hard < want:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, want))
            hard = want
        except (OSError, ValueError):
            pass
    return count if hard == resource.RLIM_INFINITY else min(count, (hard - OWN_FILES) // 2)


def run_held(places, opts):
    """Topic net-held."""
    who, count = egress.ready(places.user or places.main), CONNECTIONS // (10 if opts.quick else 1)
    print(f"bench: {count} open connections", flush=True)
    limit = possible(count)
    world = egress.World(who, with_peers=False)
    try:
        direct, cove = world.way(DIRECT), world.way(COVE)
        pid = find_egress(cove.shell.pid)
        empty = resident(pid)
        held, grown = hold(cove, world.tcp[COVE], count)
        full = resident(pid)
        alive = release(cove)
        time.sleep(1)
        after = resident(pid)
        # Last: what it leaves behind would be there for the other to use.
        floor, floor_kernel = hold(direct, world.tcp[DIRECT], count)
        release(direct)
    finally:
        world.close()
    if alive != held:
        raise RuntimeError(f"{held} connections were open, {alive} of them stayed alive")
    own = full + sum(max(0, g) for g in grown)
    mib = lambda v: f"{v / (1 << 20):.1f}"
    each = lambda v, n: f"{v / n / 1024:.2f}"
    rows = [["cove-egress, resident, none open", mib(empty), ""],
            ["cove-egress, resident", mib(full), each(full - empty, held)],
            ["cove-egress, resident, after they closed", mib(after), ""],
            ["kernel: TCP buffers", mib(grown[0]), each(grown[0], held)],
            ["kernel: all objects", mib(grown[1]), each(grown[1], held)],
            ["kernel: all objects, direct", mib(floor_kernel[1]), each(floor_kernel[1], floor)]]
    scale = count / held
    return sandboxes.result(
        f"{count} open connections", ["", "MiB", "KiB a connection"], rows,
        [report.bar("open connections held, as many as descriptors allow", held, limit,
                    at_least=True),
         report.bar(f"{count} open connections: cove-egress, resident",
                    full * scale / (1 << 20), 200 * count / CONNECTIONS, " MiB"),
         report.bar(f"{count} open connections: the same and the kernel, both ends too",
                    own * scale / (1 << 20), 200 * count / CONNECTIONS, " MiB")],
        {"held": held, "alive": alive, "empty": empty, "full": full, "after": after,
         "tcp": grown[0], "slab": grown[1], "direct": {"held": floor, "slab": floor_kernel[1]}},
        [f"{held} were held, each was used once before and once after; memory is scaled to "
         f"{count}. A connection takes two descriptors of cove-egress, and the limit of this host "
         f"allows {limit}. What the kernel took is for four sockets a connection: the program's, "
         "both of cove-egress, and the server's; the first and the last (\"direct\") would be "
         "there without cove."])


# ---- reload -----------------------------------------------------------------------------

def policy(turn, yaml):
    """Ten thousand rules, of which one is another each time."""
    hosts = [f"h{i}.example.com" for i in range(RULES - 1)] + [f"turn{turn}.example.com"]
    if yaml:
        lines = [f"  - {{host: {h}, port: 443}}" for h in hosts]
        return "mode: allowlist\nrules:\n" + "\n".join(lines) + "\n"
    return json.dumps({"mode": "allowlist", "rules": [{"host": h, "port": 443} for h in hosts]})


def status(who, name):
    return json.loads(must(who.run([who.cove, "net", "status", name, "--json"]),
                           "cove net status").stdout)


def save(who, name, path, turn):
    """Saves another policy as editors do; microseconds until it was in force."""
    before = status(who, name)["generation"]
    with open(path + ".new", "w") as f:
        f.write(policy(turn, path.endswith(".yaml")))
    os.rename(path + ".new", path)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        time.sleep(0.1)
        s = status(who, name)
        if s["generation"] > before:
            check = [who.cove, "net", "check", "-q", name, f"turn{turn}.example.com:443"]
            must(who.run(check), "the new rule")
            return s["saveToEffectUs"], s["lastChange"]["us"]
    raise RuntimeError(f"{path}: not in force after 10 s: {s.get('problem')}")


def run_reload(places, opts):
    """Topic net-reload."""
    who, rounds = places.main, 3 if opts.quick else 15
    print(f"bench: reload of {RULES} rules", flush=True)
    files = {n: os.path.join(who.base, f"policy.{n}") for n in ("json", "yaml")}
    boxes = {n: f"bench-{n}" for n in files}
    seen = {n: [] for n in files}
    try:
        for n, path in files.items():
            with open(path, "w") as f:
                f.write(policy("s", n == "yaml"))
            must(who.run([who.cove, "create", boxes[n], "--policy", path]), "cove create")
            must(who.run([who.cove, "start", boxes[n]]), "cove start")
        for turn in range(rounds):
            for n, path in files.items():
                seen[n].append(save(who, boxes[n], path, turn))
    finally:
        for name in boxes.values():
            sandboxes.down(who, name)
    mid = {n: [report.median([s[i] for s in v]) / 1000 for i in (0, 1)] for n, v in seen.items()}
    rows = [[f"{RULES} rules, {n.upper()}", f"{save_ms:.1f}", f"{change_ms:.1f}"]
            for n, (save_ms, change_ms) in mid.items()]
    return sandboxes.result(
        "A saved policy file", ["", "from save to effect, ms", "of that, the change itself, ms"],
        rows, [report.bar(f"{RULES} rules, from save to effect", mid["json"][0], 20, " ms")], mid,
        [f"Median of {rounds} saves by rename on a running sandbox, as `cove net status` tells "
         "it: from the file's change time to the answer of cove-egress that it decides by it."])
