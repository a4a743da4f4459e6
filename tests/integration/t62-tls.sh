#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Opened TLS: programs of every kind trust the sandbox's authority without being told, upstreams
# are verified, and what no rule opens is left as it is.
. "$(dirname "$0")/../lib/net.sh"
. "$(dirname "$0")/../lib/harness.sh"
need ROOT USERNS JQ
chmod 755 "$T" && net_world
mkdir -p "$T/p" && cd "$T/p" || exit 1

cat >"$T/open.yaml" <<END
network:
  mode: allowlist
  allowedHosts: [other.test]
  trust: ["$CA"]
  rules:
    - {id: read, host: good.test, methods: [GET, HEAD], paths: [/page, /echo, /big]}
    - {id: deep, host: "**.wild.test", methods: [GET]}
END
sed '/trust:/d' "$T/open.yaml" >"$T/untrusted.yaml"
run() { cove run -q --rm --no-mounts --spec "$T/open.yaml" "$@"; }
URL=https://good.test/page

ok 'curl, with what the sandbox has in its environment and without it' '
	same "the page" "$(run -- curl -sS --max-time $(patient 5) $URL)"
	same "the page" "$(run -- env -i curl -sS --max-time $(patient 5) $URL)"'
ok 'the certificate is from the authority of this sandbox, and is right' '
	run -- sh -c "openssl s_client -connect good.test:443 -servername good.test -verify_return_error \
		-verify_hostname good.test -x509_strict </dev/null" >"$T/seen" 2>&1
	has "$(cat "$T/seen")" "Verify return code: 0"
	has "$(openssl x509 -noout -issuer <"$T/seen")" "cove sandbox"
	has "$(openssl x509 -noout -ext subjectAltName,extendedKeyUsage,basicConstraints <"$T/seen")" "DNS:good.test"'
ok 'wget (GnuTLS)' '
	command -v wget >/dev/null || lacks wget
	same "the page" "$(run -- wget -T $(patient 5) -qO- $URL)"
	same "the page" "$(run -- env -i wget -T $(patient 5) -qO- $URL)"'
ok 'python: urllib, and with strict checks' '
	same "the page" "$(run -- python3 -c "
import ssl, urllib.request as u
c = ssl.create_default_context()
c.verify_flags |= ssl.VERIFY_X509_STRICT
print(u.urlopen(\"$URL\", context=c, timeout=$(patient 5)).read().decode(), end=\"\")")"
	same "the page" "$(run -- env -i python3 -c "
import urllib.request as u
print(u.urlopen(\"$URL\", timeout=$(patient 5)).read().decode(), end=\"\")")"'
ok 'node: fetch and https' '
	command -v node >/dev/null || lacks node
	same "the page" "$(run -- node -e "fetch(\"$URL\").then(r=>r.text()).then(t=>process.stdout.write(t))")"
	same "the page" "$(run -- node -e "require(\"https\").get(\"$URL\",r=>r.pipe(process.stdout))")"'
ok 'java: its own trust store has the authority' '
	command -v javac >/dev/null || lacks javac
	mkdir -p "$T/java"
	cat >"$T/java/Get.java" <<END
import java.net.*;
public class Get {
	public static void main(String[] a) throws Exception {
		System.out.print(new String(new URL(a[0]).openStream().readAllBytes()));
		System.out.print(java.net.http.HttpClient.newHttpClient().send(
			java.net.http.HttpRequest.newBuilder(URI.create(a[0])).build(),
			java.net.http.HttpResponse.BodyHandlers.ofString()).body());
	}
}
END
	javac -d "$T/java" "$T/java/Get.java" 2>/dev/null
	same "the page
the page" "$(cove run -q --rm --no-mounts --spec "$T/open.yaml" --mount "$T/java:ro" -- java -cp "$T/java" Get $URL)"'
ok 'git speaks to it' '
	command -v git >/dev/null || lacks git
	run -- git ls-remote https://good.test/page 2>"$T/err" || :
	! grep -i certificate "$T/err"'
ok 'each request is judged' '
	same 403 "$(run -- curl -s --max-time $(patient 5) -o /dev/null -w "%{http_code}" -X POST -d x $URL)"
	same 403 "$(run -- curl -s --max-time $(patient 5) -o /dev/null -w "%{http_code}" https://good.test/secret)"
	run -- curl -s --max-time $(patient 5) https://good.test/secret | jq -e ".rule and .reason and .how"'
ok 'HTTP/2 is negotiated down; a program that wants nothing else is told' '
	same "1.1 200" "$(run -- curl -s --http2 --max-time $(patient 5) -o /dev/null -w "%{http_version} %{http_code}" $URL)"
	run -- sh -c "openssl s_client -alpn h2 -connect good.test:443 -servername good.test </dev/null" >"$T/h2" 2>&1 || :
	has "$(cat "$T/h2")" "no application protocol"'
ok 'TLS 1.2 is spoken, 1.1 is not' '
	same "the page" "$(run -- curl -sS --tls-max 1.2 --max-time $(patient 5) $URL)"
	! run -- curl -sS --tls-max 1.1 --ciphers DEFAULT@SECLEVEL=0 --max-time $(patient 5) $URL'
ok 'what no rule opens keeps its own certificate' '
	run -- sh -c "openssl s_client -connect other.test:443 -servername other.test </dev/null" >"$T/seen" 2>&1
	has "$(openssl x509 -noout -issuer <"$T/seen")" "Test CA"
	same "the page" "$(cove run -q --rm --no-mounts --spec "$T/open.yaml" --mount "$T/tls:ro" -- curl -sS --cacert "$CA" https://other.test/page)"'
ok 'an upstream that nobody vouches for is refused' '
	begin=$(date +%s%N)
	! cove run -q --rm --no-mounts --spec "$T/untrusted.yaml" -- curl -sSf --max-time $(patient 5) $URL || exit 1
	[ $(($(date +%s%N) - begin)) -lt $(patient 3000)000000 ]'
ok 'an upstream with a certificate for another name is refused' '
	same "the page" "$(run -- curl -sS --max-time $(patient 5) https://a.wild.test/page)"
	! run -- curl -sSf --max-time $(patient 5) https://a.b.wild.test/page'
ok 'a large answer arrives whole' '
	same "$(sha256sum <"$T/www/big")" "$(run -- curl -sS --max-time 20 https://good.test/big | sha256sum)"'
ok 'the files: ours alone, the bundle, read-only' '
	run -- sh -c "
		test \$(grep -c BEGIN /run/cove/ca.pem) = 1
		test \$(grep -c BEGIN /run/cove/ca-bundle.pem) -gt 1
		cmp /run/cove/ca-bundle.pem \"\$SSL_CERT_FILE\"
		cmp /run/cove/ca.pem \"\$NODE_EXTRA_CA_CERTS\"
		! echo x 2>/dev/null >/run/cove/ca.pem || exit 1
		! rm /run/cove/ca.pem 2>/dev/null"'
ok 'what the spec says of the environment wins' '
	same mine "$(run --env SSL_CERT_FILE=mine -- sh -c "echo \$SSL_CERT_FILE")"'
ok 'the resolver is ours, without search domains; without network nothing changes' '
	has "$(run -- cat /etc/resolv.conf)" "nameserver 198.18.0.1"
	! run -- grep -qE "^(search|domain)" /etc/resolv.conf || exit 1
	! cove run -q --rm --no-mounts -- grep -q nameserver /etc/resolv.conf || exit 1
	same "" "$(cove run -q --rm --no-mounts -- sh -c "echo \$SSL_CERT_FILE")"'
ok 'two sandboxes have two authorities' '
	a=$(run -- cat /run/cove/ca.pem) b=$(run -- cat /run/cove/ca.pem)
	[ "$a" != "$b" ]'
ok 'an image directory: its own bundle, at the end of its symlinks' '
	have STATIC_GUEST || lacks "a static guest"
	R=$T/root
	mkdir -p "$R/bin" "$R/etc/pki" "$R/tmp" "$R/proc" "$R/dev" "$R/etc/ssl/certs"
	for p in sh cat curl; do
		cp "$(command -v $p)" "$R/bin/"
		ldd "$(command -v $p)" | grep -oE "/[^ ]+" | while read -r lib; do
			mkdir -p "$R$(dirname "$lib")" && cp -L "$lib" "$R$lib"
		done
	done
	cp -L /lib/x86_64-linux-gnu/libnss_dns.so.2 /lib/x86_64-linux-gnu/libnss_files.so.2 "$R/lib/x86_64-linux-gnu/" 2>/dev/null || :
	echo "root:x:0:0::/root:/bin/sh" >"$R/etc/passwd"
	cp "$CA" "$R/etc/pki/bundle"
	ln -sf /etc/pki/bundle "$R/etc/ssl/certs/ca-certificates.crt"
	ln -sf ../run/nowhere/resolv.conf "$R/etc/resolv.conf"
	same "the page" "$(run --image "rootfs:$R" -- curl -sS --max-time $(patient 5) $URL)"
	same "the page" "$(run --image "rootfs:$R" -- curl -sS --max-time $(patient 5) --cacert /etc/ssl/certs/ca-certificates.crt $URL)"
	same "the page" "$(run --image "rootfs:$R" -- curl -sS --max-time $(patient 5) https://other.test/page)"
	same "$(cat "$CA")" "$(cat "$R/etc/pki/bundle")"'
ok 'a named sandbox keeps its authority while it runs, and no key is on disk' '
	cove run -q box --no-mounts --spec "$T/open.yaml" -- true
	same "the page" "$(cove exec box -- curl -sS --max-time $(patient 5) $URL)"
	a=$(cove exec box -- cat /run/cove/ca.pem) b=$(cove exec box -- cat /run/cove/ca.pem)
	same "$a" "$b"
	! grep -rl "PRIVATE KEY" "$COVE_HOME" || exit 1
	! cove exec box -- sh -c "grep -rl \"PRIVATE KEY\" /run /etc 2>/dev/null" || exit 1
	cove rm -f box'
ok 'a rule that comes later opens connections, and the sandbox trusts us from then on' '
	printf "network:\n  mode: allowlist\n  allowedHosts: [other.test]\n  trust: [\"%s\"]\n" "$CA" >"$T/later.yaml"
	cove run -q later --no-mounts --spec "$T/later.yaml" -- true
	same 0 "$(cove exec later -- grep -c BEGIN /run/cove/ca.pem || :)"
	cove net allow later good.test --method GET
	same 1 "$(cove exec later -- grep -c BEGIN /run/cove/ca.pem)"
	same "the page" "$(cove exec later -- curl -sS --max-time $(patient 5) $URL)"
	same "the page" "$(cove exec later -- env -i curl -sS --max-time $(patient 5) $URL)"
	cove rm -f later'
done_testing
