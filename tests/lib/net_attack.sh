# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# net_attack.sh - sourced after net.sh and harness.sh by the attacks on the egress.
#
#   attack_world ZONE  the addresses of net.sh; a resolver with the answers of the text ZONE
#                      (net_dns.py), which logs to $T/dns.log; net_upstream.py on every address
#                      there: 80, 8080, 53 and TLS 443, 8443, 853, which logs to $T/up.log; and one
#                      on the host's own loopback: 80, 8123, which logs to $T/canary.log
#   inside BOX PROG .. runs an attack program of tests/escape in a running sandbox
#   box NAME OPTS      starts one, with these programs
#   attack_certificate NAME SUBJECT-ALT-NAMES OPTION...   what the servers show for that name
#   arrived            every request that any server could have read in what came, a line each

P=$T/py

attack_certificate() { # NAME SUBJECT-ALT-NAMES [OPTION...]
	attack_name=$1
	printf 'subjectAltName=%s\n' "$2" >"$T/tls/ext"
	shift 2
	openssl x509 -req -in "$T/tls/req.pem" -CA "$CA" -CAkey "$T/tls/ca.key" -CAcreateserial \
		-extfile "$T/tls/ext" -out "$T/certs/$attack_name.pem" "$@" 2>/dev/null
	cp "$T/tls/key.pem" "$T/certs/$attack_name.key"
}

attack_certificates() { :; } # for more of them, say so before attack_world

attack_dns() {
	printf '%s\n' "$1" >"$T/zone"
	: >"$T/dns.log"
	python3 "$COVE_SRC/tests/lib/net_dns.py" 127.0.0.1 5300 "$T/zone" "$T/dns.log" 2>"$T/dns.err" &
	attack_dns_pid=$!
	when_done "kill $attack_dns_pid; wait $attack_dns_pid"
	COVE_RESOLVERS=127.0.0.1#5300
	export COVE_RESOLVERS
}

attack_servers() {
	nsenter -t "$net_there" -n python3 "$COVE_SRC/tests/lib/net_upstream.py" "$T/up.log" \
		80,8080,53 443,8443,853 "$T/certs" 2>"$T/up.err" &
	attack_up_pid=$!
	when_done "kill $attack_up_pid; wait $attack_up_pid"
	UPSTREAM_PAGE='UPSTREAM CANARY' python3 "$COVE_SRC/tests/lib/net_upstream.py" "$T/canary.log" \
		80,8123 '' 2>/dev/null &
	attack_canary_pid=$!
	when_done "kill $attack_canary_pid; wait $attack_canary_pid"
	wait_for 10 curl -s -o /dev/null http://45.45.0.1/ok
	wait_for 10 curl -s -o /dev/null http://127.0.0.1:8123/ok
}

attack_world() {
	for attack_tool in openssl curl python3 ip; do
		command -v $attack_tool >/dev/null || { echo "1..0 # SKIP needs $attack_tool"; tap_done=1; exit 0; }
	done
	chmod 755 "$T" && mkdir -p "$P" "$T/certs" "$T/p" && cp "$COVE_SRC"/tests/escape/egress_*.py "$P"
	attack_own=False attack_limit=1 # not patient: that a refusal takes no longer is what is shown
	! have VM || { attack_own=True && attack_limit=$(patient 1); }
	sed -i "s/^LIMIT = 1/LIMIT = $attack_limit/; s/^PATIENCE = 4/PATIENCE = $(patient 4)/; s/^OWN_KERNEL = .*/OWN_KERNEL = $attack_own/" \
		"$P/egress_try.py"
	net_addresses
	ip -6 route add default via 2a00:45::1
	net_certificates
	cp "$T/tls/cert.pem" "$T/certs/default.pem" && cp "$T/tls/key.pem" "$T/certs/default.key"
	attack_certificates
	attack_dns "$1"
	attack_servers
	cd "$T/p" || exit 1
}

box() { # NAME [OPTION...]
	box_name=$1
	shift
	cove run -q "$box_name" --no-mounts --mount "$P:ro" "$@" -- true
}
inside() { # BOX PROGRAM ARG...
	inside_box=$1 inside_prog=$2
	shift 2
	cove exec "$inside_box" -- env PYTHONDONTWRITEBYTECODE=1 python3 "$P/egress_$inside_prog.py" "$@"
}
arrived() { python3 "$COVE_SRC/tests/lib/net_upstream.py" --readings "$T/up.log"; }
