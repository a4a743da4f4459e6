#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A resolver whose answers a test chooses, and which writes down every byte it is asked.

usage: net_dns.py ADDRESS PORT ZONE LOG

A line of ZONE is a name and its addresses, all of which are in each answer. With "|" between
groups of addresses, each further question gets the next group. TTL is 0. Each question is a
line of LOG: its type, its name as text, and the whole message in hexadecimal.
"""
import ipaddress
import socket
import struct
import sys

A, AAAA = 1, 28


def read_zone(path):
    zone = {}
    with open(path, encoding="ascii") as lines:
        for line in lines:
            words = line.split()
            if words:
                groups = " ".join(words[1:]).split("|")
                zone[words[0]] = [[ipaddress.ip_address(a) for a in g.split()] for g in groups]
    return zone


def read_question(message):
    at, labels = 12, []
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]])
        at += 1 + message[at]
    kind = struct.unpack("!H", message[at + 1 : at + 3])[0]
    return b".".join(labels).decode("latin1"), kind, message[12 : at + 5]


def answer(message, zone, turns):
    name, kind, question = read_question(message)
    groups = zone.get(name.lower())
    records = b""
    count = 0
    if groups:
        turn = turns.get((name, kind), 0)
        turns[(name, kind)] = turn + 1
        for address in groups[turn % len(groups)]:
            if kind == (A if address.version == 4 else AAAA):
                data = address.packed
                records += b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(data)) + data
                count += 1
    flags = 0x8180 if groups else 0x8183
    return name, kind, message[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0) + question + records


def main():
    address, port, zone_path, log_path = sys.argv[1:]
    zone, turns = read_zone(zone_path), {}
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, int(port)))
    with open(log_path, "a", encoding="utf-8") as log:
        while True:
            message, client = server.recvfrom(4096)
            try:
                name, kind, reply = answer(message, zone, turns)
            except (IndexError, struct.error):
                name, kind, reply = "?", 0, None
            print(kind, repr(name), message.hex(), file=log, flush=True)
            if reply:
                server.sendto(reply, client)


main()
