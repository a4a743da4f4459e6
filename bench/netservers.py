# SPDX-License-Identifier: Apache-2.0
"""The servers on loopback that the network is measured against: netload, nginx, their files."""
import os
import random
import string
import subprocess

import netways

BODY = 64 << 20
KEY = "bench-key-" + "v" * 30

BASE = """daemon off; worker_processes 1; pid {d}/pid; error_log {d}/error.log;
events {{ worker_connections 4096; }}
http {{
	access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000;
	client_body_temp_path {d}/b; proxy_temp_path {d}/p; fastcgi_temp_path {d}/f;
	uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;
	{more}
}}
"""
PLAIN = """server {{ listen 127.0.0.1:{port}; root {www}; location = /1 {{ return 200 x; }} }}"""
# Nothing is served without the key: what was measured had it swapped in.
TLS = """server {{
		listen 127.0.0.1:{port} ssl; root {www};
		ssl_certificate {tls}/cert.pem; ssl_certificate_key {tls}/key.pem;
		if ($http_x_api_key != "{key}") {{ return 403; }}
		location = /1 {{ return 200 x; }}
	}}"""
PROXY = """upstream up {{ server 127.0.0.1:{up}; keepalive 32; }}
	server {{
		listen 127.0.0.1:{port} ssl;
		ssl_certificate {tls}/cert.pem; ssl_certificate_key {tls}/key.pem;
		location / {{
			proxy_pass https://up; proxy_http_version 1.1;
			proxy_set_header Connection ""; proxy_set_header X-Api-Key "{key}";
			proxy_ssl_server_name on; proxy_ssl_name {host};
			proxy_ssl_verify on; proxy_ssl_trusted_certificate {tls}/ca.pem;
			proxy_buffer_size 16k; proxy_buffers 16 64k; proxy_busy_buffers_size 256k;
			proxy_max_temp_file_size 0;
		}}
	}}"""


class Servers:
    """What was started; close() ends it."""

    def __init__(self, who):
        self.who, self.running = who, []
        self.www = os.path.join(who.runtime, "www")  # in memory: the disk has no part in it
        self.tls = os.path.join(who.base, "tls")

    def start(self, argv, port):
        self.running.append(netways.popen(self.who, argv, stdin=subprocess.DEVNULL,
                                          stdout=subprocess.DEVNULL))
        netways.wait_listening(port)

    def netload(self, port):
        self.start([self.who.program("netload"), "serve", str(port)], port)

    def files(self):
        if os.path.isdir(self.www):
            return
        os.makedirs(self.www)
        letters = random.Random(7).choices(string.ascii_letters + " \n", k=1 << 20)
        with open(os.path.join(self.www, "big"), "w") as f:
            for _ in range(BODY >> 20):
                f.write("".join(letters))
        self.who.own()

    def nginx(self, name, port, more):
        """False: there is no nginx."""
        program = netways.bring(self.who, "nginx")
        if not program:
            return False
        d = os.path.join(self.who.base, name)
        os.makedirs(d, exist_ok=True)
        path = os.path.join(d, "nginx.conf")
        with open(path, "w") as f:
            f.write(BASE.format(d=d, more=more))
        self.who.own()
        self.start([program, "-c", path, "-e", os.path.join(d, "error.log"), "-p", d], port)
        return True

    def plain(self, port):
        self.files()
        return self.nginx("nginx-plain", port, PLAIN.format(port=port, www=self.www))

    def upstream(self, port):
        self.files()
        return self.nginx("nginx-tls", port, TLS.format(port=port, www=self.www, tls=self.tls,
                                                        key=KEY))

    def proxy(self, port, up):
        return self.nginx("nginx-proxy", port, PROXY.format(
            port=port, up=up, tls=self.tls, key=KEY, host=netways.HOST))

    def certificates(self):
        """An authority and a certificate for the host's name and for loopback."""
        os.makedirs(self.tls, exist_ok=True)
        at = lambda f: os.path.join(self.tls, f)
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        with open(at("ext"), "w") as f:
            f.write(f"subjectAltName=DNS:{netways.HOST},IP:127.0.0.1\n")
        for argv in (
                ["req", "-x509", *curve, "-days", "2", "-subj", "/CN=Bench CA", "-keyout",
                 at("ca.key"), "-out", at("ca.pem")],
                ["req", *curve, "-subj", "/CN=server", "-keyout", at("key.pem"), "-out",
                 at("req.pem")],
                ["x509", "-req", "-in", at("req.pem"), "-CA", at("ca.pem"), "-CAkey",
                 at("ca.key"), "-CAcreateserial", "-days", "2", "-extfile", at("ext"), "-out",
                 at("cert.pem")]):
            subprocess.run(["openssl", *argv], check=True, capture_output=True, timeout=30)
        self.who.own()

    def close(self):
        for p in self.running:
            netways.stop(p)
