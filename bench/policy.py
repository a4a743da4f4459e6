# SPDX-License-Identifier: Apache-2.0
"""The network policy: what a decision costs with many rules, and what reading them costs."""
import subprocess

import report
import sandboxes

ROWS = (("name_hit_ns", "decision, a name that a rule has", "ns"),
        ("name_miss_ns", "decision, a name that none has", "ns"),
        ("request_ns", "decision about a request", "ns"),
        ("address_ns", "decision about an address", "ns"),
        ("reload_ms", "policy file, from its text to a policy that decides", "ms"),
        ("compile_ms", "the same from a spec that is parsed", "ms"),
        ("spec_ms", "a spec with these rules, parsed", "ms"))


def run(places, opts):
    """bench/policy.c with 100, 10,000 and 60,000 rules."""
    print("bench: network policy", flush=True)
    data = {}
    for n in (100, 10000) if opts.quick else (100, 10000, 60000):
        out = subprocess.run([places.main.program("policy"), str(n)], capture_output=True,
                             text=True, timeout=300, check=True).stdout
        data[n] = {k: float(v) for k, v in (line.split() for line in out.splitlines())}
    rows = [[f"{what}, {unit}"] + [f"{data[n][key]:.4g}" for n in data]
            for key, what, unit in ROWS]
    worst = max(data[10000][k] for k, _, unit in ROWS if unit == "ns")
    return sandboxes.result(
        "Network policy", ["with so many rules"] + [f"{n:,}" for n in data], rows,
        [report.bar("slowest decision with 10,000 rules", worst, 500, " ns"),
         report.bar("policy file of 10,000 rules, compiled", data[10000]["reload_ms"], 20, " ms")],
        data, ["Processor time of one thread; names are asked for in random order."])
