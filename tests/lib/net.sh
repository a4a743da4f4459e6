# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# net.sh - a small internet in network namespaces of its own, for tests of the egress.
#
# Sourced before harness.sh: runs the test again inside a new network namespace (root only),
# which a veth joins to a second one, where the servers are:
#
#   good.test, other.test, *.wild.test   45.45.0.1, .2, .3   nginx: 80, 443 (its own CA)
#   loop.test meta.test private.test mapped.test six.test    addresses that must be refused
#   COVE_RESOLVERS                       dnsmasq, which logs every query to $T/dns.log
#
#   net_world          starts the servers; call it after harness.sh
#   there CMD          runs CMD where the servers are
#   $CA                the certificate that signs nginx's
#   queries            names that were asked for upstream

if [ "$(id -u)" = 0 ] && [ -z "${COVE_TEST_NETNS:-}" ]; then
	COVE_TEST_NETNS=1
	export COVE_TEST_NETNS
	exec unshare -n sh "$0" "$@"
fi

there() { nsenter -t "$net_there" -n "$@"; }

net_addresses() {
	unshare -n sleep 1000 &
	net_there=$!
	when_done "kill $net_there; wait $net_there"
	wait_for 5 net_apart
	ip link set lo up
	ip link add cove0 type veth peer name cove1
	ip link set cove1 netns "$net_there"
	ip addr add 45.45.0.254/24 dev cove0
	ip -6 addr add 2a00:45::fe/64 dev cove0 nodad
	ip link set cove0 up
	there ip link set lo up
	there ip addr add 45.45.0.1/24 dev cove1
	for a in 45.45.0.2 45.45.0.3 10.1.2.3 169.254.169.254 100.64.0.9; do
		there ip addr add "$a/32" dev cove1
	done
	there ip -6 addr add 2a00:45::1/64 dev cove1 nodad
	there ip link set cove1 up
	ip route add default via 45.45.0.1
	there ip route add default via 45.45.0.254
}
net_apart() { [ "$(readlink /proc/self/ns/net)" != "$(readlink "/proc/$net_there/ns/net")" ]; }

net_dns() {
	dnsmasq -k --conf-file=/dev/null --no-resolv --no-hosts --listen-address=127.0.0.1 \
		--bind-interfaces --port=5300 --user="$(id -un)" --pid-file= --log-queries \
		--log-facility="$T/dns.log" \
		--address=/good.test/45.45.0.1 --address=/other.test/45.45.0.2 \
		--address=/wild.test/45.45.0.3 --address=/six.test/2a00:45::1 \
		--address=/loop.test/127.0.0.1 --address=/meta.test/169.254.169.254 \
		--address=/private.test/10.1.2.3 --address=/tail.test/100.64.0.9 \
		--address=/mapped.test/::ffff:127.0.0.1 \
		--address=/linklocal.test/fe80::1 --address=/nat64.test/64:ff9b::7f00:1 \
		>/dev/null 2>&1 &
	net_dns_pid=$!
	when_done "kill $net_dns_pid; wait $net_dns_pid"
	COVE_RESOLVERS=127.0.0.1#5300
	export COVE_RESOLVERS
}
queries() { sed -n 's/.*query\[[A-Z]*\] \([^ ]*\) .*/\1/p' "$T/dns.log" | sort -u; }

net_certificates() {
	mkdir -p "$T/tls"
	CA=$T/tls/ca.pem
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=Test CA" \
		-keyout "$T/tls/ca.key" -out "$CA" 2>/dev/null
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=server" \
		-keyout "$T/tls/key.pem" -out "$T/tls/req.pem" 2>/dev/null
	printf 'subjectAltName=DNS:good.test,DNS:other.test,DNS:*.wild.test,DNS:six.test,DNS:host.cove.internal\n' >"$T/tls/ext"
	openssl x509 -req -in "$T/tls/req.pem" -CA "$CA" -CAkey "$T/tls/ca.key" -CAcreateserial -days 2 \
		-extfile "$T/tls/ext" -out "$T/tls/cert.pem" 2>/dev/null
}

# nginx answers with what it got, so that a test sees what was sent.
net_nginx() {
	mkdir -p "$T/www" "$T/ngx"
	echo "the page" >"$T/www/page"
	head -c 3000000 /dev/urandom >"$T/www/big"
	cat >"$T/ngx.conf" <<END
user root; daemon off; worker_processes 1; pid $T/ngx/pid; error_log $T/ngx/error.log;
events { worker_connections 4096; }
http {
	access_log $T/ngx/access.log; client_body_temp_path $T/ngx/b; proxy_temp_path $T/ngx/p;
	fastcgi_temp_path $T/ngx/f; uwsgi_temp_path $T/ngx/u; scgi_temp_path $T/ngx/s;
	root $T/www;
	server {
		listen 80 default_server; listen [::]:80 default_server;
		listen 443 ssl default_server; listen [::]:443 ssl default_server;
		ssl_certificate $T/tls/cert.pem; ssl_certificate_key $T/tls/key.pem;
		location /echo { return 200 "\$request_method \$host \$request_uri auth=\$http_authorization key=\$http_x_api_key\n"; }
		location /back { add_header X-Back \$http_x_api_key; return 200 "you sent \$http_x_api_key\n"; }
	}
}
END
	there nginx -c "$T/ngx.conf" -e "$T/ngx/error.log" >/dev/null 2>&1 &
	net_nginx_pid=$!
	when_done "kill $net_nginx_pid; wait $net_nginx_pid"
	wait_for 5 curl -s -o /dev/null http://45.45.0.1/page
}

net_world() {
	for net_tool in dnsmasq nginx openssl curl python3 ip; do
		command -v $net_tool >/dev/null || { echo "1..0 # SKIP needs $net_tool"; tap_done=1; exit 0; }
	done
	net_addresses
	net_dns
	net_certificates
	net_nginx
}
