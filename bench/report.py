# SPDX-License-Identifier: Apache-2.0
"""Numbers to tables: statistics of samples, bars, Markdown, JSON, a short summary."""
import json
import os
import platform
import time


def summary(samples):
    """min, median and 90th percentile of a list of nanoseconds, in milliseconds."""
    v = sorted(samples)
    if not v:
        return None
    at = lambda q: v[min(len(v) - 1, int(len(v) * q))] / 1e6
    return {"runs": len(v), "min_ms": v[0] / 1e6, "p50_ms": at(0.5), "p90_ms": at(0.9)}


def median(values):
    v = sorted(values)
    return v[len(v) // 2] if v else None


def parse_samples(text):
    """Lines of timeit and its like: name, failures, nanoseconds..."""
    out = {}
    for line in text.splitlines():
        f = line.split("\t")
        out[f[0]] = {"failures": int(f[1]), "ns": [int(x) for x in f[2:]]}
    return out


def bar(what, value, limit, unit="", at_least=False):
    """A promise and whether it was kept; a value of None was not measured."""
    met = None if value is None else (value >= limit if at_least else value <= limit)
    return {"what": what, "value": value, "limit": limit, "unit": unit, "at_least": at_least,
            "met": met}


def bar_text(b):
    verdict = {True: "met", False: "**not met**", None: "not measured"}[b["met"]]
    value = "-" if b["value"] is None else f"{b['value']:.3g}{b['unit']}"
    sign = "at least" if b["at_least"] else "at most"
    return [b["what"], f"{sign} {b['limit']:g}{b['unit']}", value, verdict]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(c) for c in r) + " |" for r in rows]
    return "\n".join(lines) + "\n"


def host():
    cpu = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo")
                if l.startswith("model name")), platform.machine())
    return {"kernel": platform.release(), "cpu": cpu, "cpus": os.cpu_count(),
            "os": next((l.split("=", 1)[1].strip().strip('"') for l in open("/etc/os-release")
                        if l.startswith("PRETTY_NAME=")), "?")}


class Results:
    """One JSON file with a section a topic; a partial run replaces only its sections."""

    def __init__(self, directory):
        os.makedirs(directory, exist_ok=True)
        self.json_path = os.path.join(directory, "results.json")
        self.md_path = os.path.join(directory, "results.md")
        self.data = {"topics": {}}
        try:
            with open(self.json_path) as f:
                self.data = json.load(f)
        except (OSError, ValueError):
            pass

    def put(self, topic, result):
        h = host()
        load = os.getloadavg()
        self.data["host"] = h
        result["date"] = time.strftime("%Y-%m-%d %H:%M")
        result["load"] = f"{load[0]:.1f}"
        self.data["topics"][topic] = result
        self.write()

    def write(self):
        with open(self.json_path, "w") as f:
            json.dump(self.data, f, indent=1)
            f.write("\n")
        with open(self.md_path, "w") as f:
            f.write(self.markdown())

    def markdown(self):
        h = self.data["host"]
        out = ["# Benchmark results\n",
               "Written by `make bench`; the numbers behind the tables are in results.json.\n",
               f"Host: {h['os']}, kernel {h['kernel']}, {h['cpus']} x {h['cpu']}.\n"]
        bars = [bar_text(b) for t in self.data["topics"].values() for b in t["bars"]]
        out.append("## Bars\n")
        out.append(table(["what", "bar", "measured", ""], bars))
        for t in self.data["topics"].values():
            out.append(f"## {t['title']}\n")
            out.append(f"{t['date']}, load {t['load']} at the end.\n")
            for tab in t["tables"]:
                if tab["title"]:
                    out.append(f"### {tab['title']}\n")
                out.append(table(tab["head"], tab["rows"]))
            out += [f"{n}\n" for n in t["notes"]]
        return "\n".join(out)

    def terminal(self, topics):
        """The short form: bars, and where the rest is."""
        for name in topics:
            t = self.data["topics"].get(name)
            for b in t["bars"] if t else []:
                what, limit, value, verdict = bar_text(b)
                print(f"{verdict.strip('*'):12s} {what}: {value} ({limit})")
        print(f"tables: {self.md_path}")
