#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cove net: what a sandbox may reach, seen and changed, stopped and running.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ PYTHON3 CURL
when_done 'cove rm -f --yes box none learn filed quiet; kill $SERVER'
mkdir "$T/p" "$T/www" && echo hello >"$T/www/hello" && cd "$T/p" || exit 1

# One server of the host, on a port of its own, that a sandbox reaches as host.cove.internal.
python3 - "$T" <<'P' &
import http.server, os, sys
os.chdir(sys.argv[1] + "/www")
class H(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1" # connections stay
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
open(sys.argv[1] + "/port", "w").write(str(s.server_port))
s.serve_forever()
P
SERVER=$!
wait_for 5 test -s "$T/port"
PORT=$(cat "$T/port")
URL=http://host.cove.internal:$PORT
export PORT URL
get() { cove exec "$1" -- curl -sS -m 5 -o /dev/null -w "%{http_code}" "$URL/hello" 2>/dev/null || true; }

# ---- stopped ------------------------------------------------------------------------------
ok '--allow means allowlist, and --deny goes in front' '
	cove create box --no-mounts --allow api.example.com:443 --allow "**.example.org" --deny bad.example.org
	cove inspect box | jq -e ".spec.network | .mode == \"allowlist\" and (.allowedHosts | length) == 2"
	cove net ls box --json | jq -e "[.rules[] | .action] == [\"deny\", \"allow\", \"allow\"]"'
ok 'none and --allow contradict each other' '
	rc_is 125 cove create x --net none --allow a.example.com 2>err
	has "$(cat err)" "--net none and --allow"'
ok 'a rule for a stopped sandbox is stored' '
	has "$(cove net allow box https://x.example.net/v1/** --method GET)" "in force at the next start"
	cove net deny box "*.evil.example" --id evil -q
	cove net allow box 10.1.0.0/16:22 "[2001:db8::/32]:443" -q
	jq -e ".rules | length == 4" "$COVE_HOME/sandboxes/box/net.json"
	same 600 "$(stat -c %a "$COVE_HOME/sandboxes/box/net.json")"
	same "2001:db8::/32 10.1.0.0/16 *.evil.example x.example.net" \
		"$(cove net ls box --json | jq -r ".rules[] | select(.source == \"live\") | .host" | xargs)"'
ok 'check says who decides, and exits so' '
	same "allow api.example.com:443, by allowedHosts[0]" "$(cove net check box api.example.com)"
	rc_is 1 cove net check box api.example.com:80
	rc_is 1 cove net check box bad.example.org
	cove net check box a.b.example.org
	rc_is 1 cove net check box other.example.com
	cove net check -q box 10.1.2.3:22
	rc_is 1 cove net check -q box 10.2.2.3:22
	rc_is 1 cove net check -q box 127.0.0.1:22
	rc_is 1 cove net check -q box a.evil.example'
ok 'requests are judged by method and path' '
	cove net check -q box x.example.net/v1/a --method GET
	cove net check -q box x.example.net/v1/a/b
	rc_is 1 cove net check -q box x.example.net/v1/a --method POST
	rc_is 1 cove net check -q box x.example.net/v2
	has "$(cove net check box x.example.net)" inspect'
ok 'explain goes rule by rule' '
	cove net explain box api.example.com --json |
		jq -e ".verdict == \"allow\" and (.steps | length) >= 5 and any(.steps[]; .matches)"'
ok 'scopes' '
	cove net allow box s.example.com --tool pip --agent a1 --id scoped -q
	rc_is 1 cove net check -q box s.example.com
	rc_is 1 cove net check -q box s.example.com --tool pip
	cove net check -q box s.example.com --tool pip --agent a1'
ok 'the same rule twice is one, and the newest decides' '
	cove net allow box twice.example.com -q
	cove net allow box twice.example.com -q
	same 1 "$(cove net ls box --json | jq "[.rules[] | select(.host == \"twice.example.com\")] | length")"
	cove net deny box twice.example.com -q
	rc_is 1 cove net check -q box twice.example.com'
ok 'a rule is taken back by its id' '
	cove net rm box evil -q
	rc_is 1 cove net check -q box a.evil.example
	rc_is 125 cove net rm box evil 2>err
	has "$(cat err)" "no live rule"'
ok 'a rule for a while ends by itself' '
	cove net allow box soon.example.com --for 1s -q
	cove net check -q box soon.example.com
	sleep 1.1
	rc_is 1 cove net check -q box soon.example.com'
ok 'errors say what and why' '
	for bad in "a b" "x..y" "a.example.com:99999" "-x.example.com" "*.*.example.com"; do
		rc_is 125 cove net allow box "$bad" 2>err || rc_is 2 cove net allow box "$bad" 2>err
		grep -q "^cove net: " err
	done
	rc_is 125 cove net allow box h.example.com --protocol quic 2>err
	rc_is 125 cove net allow box h.example.com --path /x --protocol tcp 2>err
	rc_is 125 cove net allow box h.example.com --id "no good" 2>err
	rc_is 2 cove net alow box h.example.com 2>err
	has "$(cat err)" "did you mean"
	rc_is 2 cove net ls box --follow 2>err
	rc_is 2 cove net allow box 2>err
	rc_is 125 cove net ls nobody 2>err
	rc_is 125 cove net log nobody 2>err
	cove net check box "a.example.com:0" && exit 1 || true'
ok 'without a network there is nothing to allow' '
	cove create none --no-mounts
	rc_is 125 cove net allow none a.example.com 2>err
	has "$(cat err)" "mode none"'
ok 'a spec alone can be asked' '
	echo "network: {mode: allowlist, allowedHosts: [a.example.com], rules: [{host: b.example.com, port: 8443}]}" >s.yaml
	cove net check -q --spec s.yaml a.example.com
	cove net check -q --spec s.yaml b.example.com:8443
	rc_is 1 cove net check -q --spec s.yaml b.example.com'
ok 'a damaged net.json is named, and nothing is let through by it' '
	cp "$COVE_HOME/sandboxes/box/net.json" keep
	echo "{\"rules\":[{\"host\":1}]}" >"$COVE_HOME/sandboxes/box/net.json"
	rc_is 125 cove net ls box 2>err
	has "$(cat err)" net.json
	rc_is 125 cove start box 2>err
	cp keep "$COVE_HOME/sandboxes/box/net.json"'
ok 'policy files: YAML, JSON, with and without network:, and broken ones' '
	echo "{\"network\":{\"mode\":\"open\",\"rules\":[{\"host\":\"f.example.com\",\"action\":\"deny\"}]}}" >pol.json
	printf "mode: allowlist\nrules:\n  - host: f.example.com\n    port: [80, 443]\n" >pol.yaml
	cove create filed --no-mounts --policy pol.yaml
	same "$T/p/pol.yaml" "$(cove inspect filed | jq -r .spec.network.file)"
	cove net check -q filed f.example.com:80
	rc_is 1 cove net check -q filed f.example.com:81
	cove net reload filed --file pol.json -q
	rc_is 1 cove net check -q filed f.example.com
	cove net check -q filed g.example.com
	echo "{\"network\":{\"rules\":[{\"hots\":\"f\"}]}}" >broken.json
	rc_is 125 cove net reload filed --file broken.json 2>err
	has "$(cat err)" hots
	printf "rules:\n - host: [a\n" >broken.yaml
	rc_is 125 cove create x --no-mounts --policy broken.yaml 2>err
	has "$(cat err)" broken.yaml
	same "$T/p/pol.json" "$(cove inspect filed | jq -r .spec.network.file)"'
ok 'a policy file in a rw mount is refused' '
	mkdir rw && cp pol.yaml rw/
	rc_is 125 cove create x --mount ./rw:rw --policy rw/pol.yaml 2>err
	has "$(cat err)" "rw mount"'
ok 'a clone has the rules too, a reset drops them' '
	cove clone box twin
	same "$(cove net ls box --json | jq -c "[.rules[].id]")" "$(cove net ls twin --json | jq -c "[.rules[].id]")"
	cove reset --yes twin
	same 0 "$(cove net ls twin --json | jq "[.rules[] | select(.source == \"live\")] | length")"
	cove rm --yes twin'
ok 'a policy file in the workspace does not land' '
	mkdir ws && cp pol.yaml ws/net.yaml && echo a >ws/a
	cove create gated ./ws --policy ws/net.yaml
	cove start gated
	cove exec gated -- sh -c "echo \"# more\" >>net.yaml; echo b >a"
	cove stop gated
	rc_is 1 cove apply --yes gated >out 2>&1
	grep -q net.yaml out
	cmp pol.yaml ws/net.yaml
	cove rm -f --yes gated'
ok 'changes are in the audit log' '
	cove audit box --json | jq -se "[.[] | select(.event == \"policy\") | .change] | (index(\"add\") and index(\"rm\"))"'

# ---- running --------------------------------------------------------------------------------
ok 'a rule takes effect without a restart, and is taken back' '
	cove create quiet --no-mounts --net allowlist
	cove start quiet
	same 000 "$(get quiet)"
	out=$(cove net allow quiet host.cove.internal:$PORT --id web)
	has "$out" "web: allow"
	echo "$out" | grep -Eq "^generation [0-9]+: [0-9]+ rules?, in force after [0-9.]+ ms, [0-9]+ connections? closed"
	same 200 "$(get quiet)"
	cove net rm quiet web -q
	same 000 "$(get quiet)"'
ok 'generations count up, and ls and status tell them' '
	a=$(cove net status quiet --json | jq .generation)
	cove net allow quiet host.cove.internal:$PORT --id web -q
	b=$(cove net status quiet --json | jq .generation)
	[ "$b" -gt "$a" ]
	same "$b" "$(cove net ls quiet --json | jq .generation)"
	cove net status quiet | grep -q "^generation *$b, 1 rules"'
ok 'a connection that a new rule refuses is closed' '
	cove exec quiet -- python3 -c "
import socket, sys
s = socket.create_connection((\"host.cove.internal\", $PORT), 5)
s.settimeout(8)
s.send(b\"GET /hello HTTP/1.1\\r\\nHost: host.cove.internal:$PORT\\r\\n\\r\\n\")
assert s.recv(100)
print(\"up\", flush=True)
try:
    while s.recv(4096): pass
except ConnectionError: pass
print(\"closed\")" >conn &
	wait_for 5 grep -q up conn
	cove net deny quiet host.cove.internal:$PORT --id no | grep -q " 1 connection closed"
	wait
	grep -q closed conn
	cove net rm quiet no -q'
ok 'the log tells what was tried' '
	same 200 "$(get quiet)"
	cove exec quiet -- curl -sS -m 5 http://nowhere.example.com/ 2>/dev/null && exit 1
	wait_for 5 sh -c "cove net log quiet --json | jq -se \"[.[] | select(.verdict == \\\"deny\\\")] | length > 0\""
	cove net log quiet --json | jq -se "[.[] | select(.verdict == \"allow\" and .host == \"host.cove.internal\" and .rule == \"web\" and .received > 0)] | length > 0"
	cove net log quiet --denied --json | jq -se "all(.verdict == \"deny\")"
	cove net log quiet --denied | grep -q nowhere.example.com
	same 1 "$(cove net log quiet --json -n 1 | wc -l)"
	same 0 "$(sleep 1; cove net log quiet --json --since 1ms | wc -l)"'
ok 'the log can be followed' '
	timeout 20 cove net log quiet --follow --json >live &
	f=$!
	sleep 0.3
	same 200 "$(get quiet)"
	wait_for 5 sh -c "tail -n 2 live | grep -q host.cove.internal"
	kill $f'
ok 'a rotated log is read on' '
	L=$COVE_HOME/sandboxes/quiet/net.jsonl
	timeout 20 cove net log quiet --follow --json >live2 &
	f=$!
	sleep 0.3
	python3 -c "
import json
print((json.dumps({\"kind\": \"filler\", \"time_ms\": 1, \"text\": \"x\" * 3000}) + \"\n\") * 3000, end=\"\")" >>"$L"
	cove net allow quiet rotate.example.com -q
	wait_for 5 test -e "$L.old"
	cove net allow quiet rotated.example.com --id rotated -q
	wait_for 5 grep -q "\"detail\":\"rotated\"" live2
	kill $f'
ok 'refusals are in the audit log, not one for each' '
	for i in 1 2 3 4 5; do cove exec quiet -- curl -sS -m 5 http://nowhere.example.com/ 2>/dev/null || true; done
	cove stop quiet
	cove audit quiet --json | jq -se "[.[] | select(.event == \"net\" and .verdict == \"deny\" and .host == \"nowhere.example.com\")] | length >= 1 and length <= 4"
	cove audit quiet --json | jq -se "[.[] | select(.event == \"policy\" and .generation and (.hash | length) == 64)] | length >= 4"
	cove audit quiet --verify'
ok 'rules are there again after a restart' '
	cove start quiet
	same 200 "$(get quiet)"'
ok 'set changes the network of a running sandbox' '
	cove net rm quiet web -q
	cove set quiet --net allowlist --allow host.cove.internal:$PORT
	same 200 "$(get quiet)"
	cove set quiet --net none
	same 000 "$(get quiet)"
	has "$(cove net ls quiet)" "mode none"
	cove set quiet --net allowlist
	same 200 "$(get quiet)"
	cove stop quiet'
ok 'what is not the network still needs a restart' '
	cove start none
	rc_is 125 cove set none --net open 2>err
	has "$(cat err)" "needs a restart"
	cove stop none'
ok 'a saved policy file is in force at once; a broken one changes nothing' '
	echo "{\"mode\":\"allowlist\",\"rules\":[]}" >pol.json
	cove start filed
	same 000 "$(get filed)"
	g=$(cove net status filed --json | jq .generation)
	echo "{\"mode\":\"allowlist\",\"rules\":[{\"host\":\"host.cove.internal\",\"port\":$PORT}]}" >pol.new
	mv pol.new pol.json
	wait_for 3 sh -c "test \$(cove net status filed --json | jq .generation) -gt $g"
	same 200 "$(get filed)"
	cove net status filed --json | jq -e ".saveToEffectUs < 1000000"
	echo "{\"rules\":[{\"host\":\"a b\"}]}" >pol.json
	wait_for 3 sh -c "cove net status filed --json | jq -e .problem"
	same 200 "$(get filed)"
	has "$(cove net status filed)" "problem"
	rc_is 125 cove net reload filed 2>err
	printf "mode: allowlist\nrules: []\n" >pol.json
	wait_for 3 sh -c "cove net status filed --json | jq -e \".problem == null\""
	same 000 "$(get filed)"
	cove net log filed --json | jq -se "[.[] | select(.kind == \"policy\" and .error)] | length >= 1"
	cove audit filed --json | jq -se "[.[] | select(.event == \"policy\" and .error)] | length >= 1"'
ok 'a hang-up makes the keeper read it again' '
	g=$(cove net status filed --json | jq .generation)
	kill -HUP "$(cove inspect filed | jq .keeperPid)"
	wait_for 3 sh -c "test \$(cove net status filed --json | jq .generation) -gt $g"
	cove exec filed -- true'
ok 'ten thousand rules' '
	python3 -c "
import json
print(json.dumps({\"mode\": \"allowlist\", \"rules\": [{\"host\": \"h%d.example.com\" % i, \"port\": 443} for i in range(10000)] + [{\"host\": \"host.cove.internal\", \"port\": $PORT}]}))" >big
	g=$(cove net status filed --json | jq .generation)
	mv big pol.json
	wait_for 5 sh -c "test \$(cove net status filed --json | jq .generation) -gt $g"
	cove net status filed | grep "last save"
	same 200 "$(get filed)"
	cove net check -q filed h9999.example.com
	cove net status filed --json | jq -e ".rules == 10001 and .saveToEffectUs < 500000"'
ok 'what is learned passes afterwards' '
	cove create learn --no-mounts --net learn
	cove start learn
	cove net allow learn host.cove.internal:$PORT -q
	same 200 "$(get learn)"
	cove stop learn
	printf "%s\n" "{\"time_ms\":1,\"kind\":\"connect\",\"verdict\":\"allow\",\"learn\":true,\"host\":\"b.example.com\",\"port\":443}" \
		"{\"time_ms\":1,\"kind\":\"connect\",\"verdict\":\"allow\",\"learn\":true,\"host\":\"a.example.com\",\"port\":8443}" \
		"{\"time_ms\":1,\"kind\":\"connect\",\"verdict\":\"allow\",\"learn\":true,\"host\":\"a.example.com\",\"port\":443}" \
		"{\"time_ms\":1,\"kind\":\"request\",\"verdict\":\"allow\",\"learn\":true,\"host\":\"c.example.com\",\"port\":443,\"method\":\"GET\",\"path\":\"/x\"}" \
		"{\"time_ms\":1,\"kind\":\"connect\",\"verdict\":\"deny\",\"learn\":true,\"host\":\"d.example.com\",\"port\":443}" >>"$COVE_HOME/sandboxes/learn/net.jsonl"
	cove net learned learn -o learned.yaml
	cove net learned learn >again.yaml
	cmp learned.yaml again.yaml
	same "a.example.com b.example.com c.example.com" "$(cove net learned learn --json | jq -r ".network.rules[].host" | xargs)"
	cove create x --no-mounts --policy learned.yaml
	cove net check -q x a.example.com:8443
	cove net check -q x b.example.com
	cove net check -q x c.example.com/x --method GET
	rc_is 1 cove net check -q x c.example.com/x --method POST
	rc_is 1 cove net check -q x d.example.com
	cove rm -f --yes x
	cove net learned learn --apply -q
	cove inspect learn | jq -e ".spec.network.mode == \"allowlist\" and (.spec.network.rules | length) == 3"'
ok 'run tells what was denied, and what allows it' '
	cove run -- curl -sS -m 5 http://nowhere.example.com/ 2>err && exit 1
	! grep -q "cove: denied" err || exit 1 # no network at all: nothing to allow
	cove run --net allowlist -- curl -sS -m 5 http://nowhere.example.com/ 2>err && exit 1
	grep -q "^cove: denied nowhere.example.com" err
	grep -q "^hint: cove run --allow nowhere.example.com" err
	cove run -q --net allowlist -- curl -sS -m 5 http://nowhere.example.com/ 2>err && exit 1
	! grep -q "cove: denied" err'
done_testing
