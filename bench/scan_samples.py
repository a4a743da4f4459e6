# SPDX-License-Identifier: Apache-2.0
"""Secrets to plant: random texts that the expressions of a rule file match."""
import random
import re
import re._parser as parser
import string

WORD = string.ascii_letters + string.digits + "_"
CLASSES = {"DIGIT": string.digits, "WORD": WORD, "SPACE": " \t\n", "NOT_SPACE": WORD,
           "NOT_WORD": ' "=:', "NOT_DIGIT": string.ascii_letters}


def parse(regex):
    """The tree of an RE2 expression, and whether it folds case, by Python's own parser."""
    fold = "(?i)" in regex
    regex = regex.replace("(?i)", "").replace("\\z", "\\Z")
    regex = regex.replace("[[:alnum:]]", "[A-Za-z0-9]")
    return parser.parse(regex), fold


def pick_class(name, rng):
    return rng.choice(CLASSES[str(name).split("CATEGORY_")[1]])


def pick_set(items, rng):
    options, negate = [], False
    for op, arg in items:
        op = str(op)
        if op == "NEGATE":
            negate = True
        elif op == "LITERAL":
            options.append(chr(arg))
        elif op == "RANGE":
            options += [chr(c) for c in range(arg[0], min(arg[1], 0x17F) + 1)]
        else:
            options += CLASSES[str(arg).split("CATEGORY_")[1]]
    if negate:
        options = [c for c in WORD + " ,.-" if c not in options]
    return rng.choice(options)


def text(tree, fold, rng):
    """One text that the tree matches."""
    out = ""
    for op, arg in tree:
        op = str(op)
        if op == "LITERAL":
            c = chr(arg)
            out += c.swapcase() if fold and rng.random() < 0.3 else c
        elif op == "ANY":
            out += rng.choice(WORD)
        elif op == "IN":
            out += pick_set(arg, rng)
        elif op == "NOT_LITERAL":
            out += rng.choice([c for c in WORD if ord(c) != arg])
        elif op == "CATEGORY":
            out += pick_class(arg, rng)
        elif op == "BRANCH":
            out += text(rng.choice(arg[1]), fold, rng)
        elif op == "SUBPATTERN":
            inner = fold or bool(arg[1] & re.I)
            out += text(arg[3], inner and not arg[2] & re.I, rng)
        elif op in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high = arg[0], min(int(arg[1]), arg[0] + 12)
            for _ in range(rng.choice([low, high, rng.randint(low, high)])):
                out += text(arg[2], fold, rng)
        elif op != "AT":
            raise ValueError(op)
    return out


def plant(rules, directory, count, seed):
    """Writes count texts for every rule, one file a rule; returns {file: rule}."""
    rng = random.Random(seed)
    made = {}
    for r in rules:
        if "regex" not in r:
            continue
        tree, fold = parse(r["regex"])
        name = r["id"] + ".txt"
        with open(f"{directory}/{name}", "w", encoding="utf-8", newline="") as f:
            f.write("# " + " ".join(r.get("keywords", [])) + "\n")
            for i in range(count):
                f.write(f"line {i}\n" + text(tree, fold, rng) + "\n")
        made[name] = r["id"]
    return made
