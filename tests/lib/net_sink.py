#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes every connection, and holds it until the other side ends. usage: net_sink.py PORT..."""
import resource
import selectors
import socket
import sys

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
servers = {socket.create_server(("", int(port)), backlog=4096) for port in sys.argv[1:]}
events = selectors.DefaultSelector()
for server in servers:
    events.register(server, selectors.EVENT_READ)
while True:
    for key, _ in events.select():
        if key.fileobj in servers:
            try:
                s, _ = key.fileobj.accept()
            except OSError:
                continue
            events.register(s, selectors.EVENT_READ)
            continue
        try:
            data = key.fileobj.recv(4096)
        except OSError:
            data = b""
        if not data:
            events.unregister(key.fileobj)
            key.fileobj.close()
