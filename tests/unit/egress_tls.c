/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's authority and TLS on either side, with real handshakes over socket pairs.
 */
#include "egress/ca_impl.h"
#include "egress/chan.h"
#include "tap.h"

#include "base/util.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

/* ---- helpers -------------------------------------------------------------------- */
static struct authority *new_authority(const char *name)
{
	struct authority *a = NULL;
	struct cove_error err = {0};

	if (authority_new(&a, name, &err) < 0)
		abort();
	return a;
}

static void pair(int sv[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		abort();
}

/* The same over TCP, whose buffers hold more. */
static void tcp_pair(int sv[2])
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(0x7f000001)};
	socklen_t n = sizeof(in);
	cleanup_fd int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sv[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(l, (void *)&in, n) < 0 || listen(l, 1) < 0 ||
	    getsockname(l, (void *)&in, &n) < 0 || connect(sv[0], (void *)&in, n) < 0)
		abort();
	sv[1] = accept4(l, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	fcntl(sv[0], F_SETFL, O_NONBLOCK);
}

/* a trusts b's authority. */
static void trust(struct authority *a, struct authority *b)
{
	cleanup_buf struct buf pem = BUF_INIT(65536);

	if (authority_pem(b, &pem) < 0 || authority_trust(a, pem.data, pem.len) < 0)
		abort();
}

/* Both handshakes to the end; what the client side returned. */
static int shake(struct chan *client, struct chan *server)
{
	int c = 0, s = 0;

	for (int i = 0; i < 50 && (c == 0 || (c == 1 && s == 0)); i++) {
		if (c == 0)
			c = chan_handshake(client);
		if (s == 0)
			s = chan_handshake(server);
	}
	return c;
}

/* A server of the test's own making, as an upstream. */
struct upstream {
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;
};

static void upstream_open(struct upstream *u, int fd, X509 *cert, EVP_PKEY *key)
{
	u->fd = fd;
	u->ctx = SSL_CTX_new(TLS_server_method());
	SSL_CTX_use_certificate(u->ctx, cert);
	SSL_CTX_use_PrivateKey(u->ctx, key);
	u->ssl = NULL;
}

static void upstream_close(struct upstream *u)
{
	SSL_free(u->ssl);
	SSL_CTX_free(u->ctx);
}

static int shake_upstream(struct chan *c, struct upstream *u)
{
	int r = 0;

	u->ssl = SSL_new(u->ctx);
	SSL_set_fd(u->ssl, u->fd);
	SSL_set_accept_state(u->ssl);
	for (int i = 0; i < 50 && r == 0; i++) {
		r = chan_handshake(c);
		SSL_do_handshake(u->ssl);
		ERR_clear_error();
	}
	return r;
}

/* A certificate with other dates than ours have. */
static X509 *with_dates(X509 *leaf, EVP_PKEY *issuer_key, long from, long to)
{
	X509 *x = X509_dup(leaf);

	ASN1_TIME_set(X509_getm_notBefore(x), time(NULL) + from);
	ASN1_TIME_set(X509_getm_notAfter(x), time(NULL) + to);
	X509_sign(x, issuer_key, EVP_sha256());
	return x;
}

/* ---- certificates --------------------------------------------------------------- */
static void check_leaf(struct authority *a, const char *name, bool ip)
{
	X509 *x = cert_leaf(name, a->leaf_key, a->cert, a->key);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *v = X509_STORE_CTX_new();

	OK(x, "a leaf for %s", name);
	X509_STORE_add_cert(store, a->cert);
	X509_STORE_set_flags(store, X509_V_FLAG_X509_STRICT);
	X509_STORE_CTX_init(v, store, x, NULL);
	X509_STORE_CTX_set_purpose(v, X509_PURPOSE_SSL_SERVER);
	OK(X509_verify_cert(v) == 1, "strict verification: %s",
	   X509_verify_cert_error_string(X509_STORE_CTX_get_error(v)));
	if (ip)
		OK(X509_check_ip_asc(x, name, 0) == 1, "is for the address");
	else
		OK(X509_check_host(x, name, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
				   NULL) == 1,
		   "is for the name");
	OK(X509_check_host(x, "other.example", 0, 0, NULL) != 1, "is for no other");
	OK(ASN1_STRING_length(X509_get0_serialNumber(x)) == 16, "serial of 16 bytes");
	OK(X509_cmp_current_time(X509_get0_notBefore(x)) < 0, "valid since before now");
	X509_STORE_CTX_free(v);
	X509_STORE_free(store);
	X509_free(x);
}

static void leafs_hold_what_verifiers_ask_for(void)
{
	struct authority *a = new_authority("box");
	char label[64], name[254];

	memset(label, 'a', 63);
	label[63] = 0;
	snprintf(name, sizeof(name), "%.63s.%.63s.%.50s.example", label, label, label);
	OK(authority_ready(a) == 0, "an authority is made");
	OK(X509_check_ca(a->cert) == 1 && X509_get_pathlen(a->cert) == 0,
	   "a CA, no deeper");
	OK(X509_get_key_usage(a->cert) == (KU_KEY_CERT_SIGN | KU_CRL_SIGN), "signs only");
	check_leaf(a, "api.example.com", false);
	check_leaf(a, name, false);
	check_leaf(a, "192.0.2.7", true);
	check_leaf(a, "2001:db8::7", true);
	check_leaf(a, "xn--mnchen-3ya.example", false);
	authority_free(a);
}

static void a_name_cannot_add_a_name(void)
{
	struct authority *a = new_authority("box\nCN=evil");
	const char *name = "a.example,DNS:b.example";
	X509 *x;

	authority_ready(a);
	x = cert_leaf(name, a->leaf_key, a->cert, a->key);
	OK(x && X509_check_host(x, "b.example", 0, 0, NULL) != 1, "a comma is a letter");
	X509_free(x);
	authority_free(a);
}

/* The command's own judgement, which knows nothing of our code. */
static void openssl_verifies(void)
{
	struct authority *a = new_authority("box");
	char dir[] = "/tmp/cove-tls-XXXXXX", ca[64], leaf[64], cmd[256];
	cleanup_buf struct buf pem = BUF_INIT(65536);
	X509 *x;
	FILE *f;
	pid_t pid;
	int status = -1;

	if (!mkdtemp(dir) || authority_pem(a, &pem) < 0)
		abort();
	snprintf(ca, sizeof(ca), "%s/ca.pem", dir);
	snprintf(leaf, sizeof(leaf), "%s/leaf.pem", dir);
	f = fopen(ca, "we");
	fwrite(pem.data, 1, pem.len, f);
	fclose(f);
	x = cert_leaf("api.example.com", a->leaf_key, a->cert, a->key);
	f = fopen(leaf, "we");
	PEM_write_X509(f, x);
	fclose(f);
	snprintf(cmd, sizeof(cmd),
		 "exec openssl verify -x509_strict -purpose sslserver -verify_hostname "
		 "api.example.com -CAfile %s %s >&2",
		 ca, leaf);
	pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		SKIP("no openssl command");
	else
		OK(status == 0, "openssl verify -x509_strict");
	unlink(ca);
	unlink(leaf);
	rmdir(dir);
	X509_free(x);
	authority_free(a);
}

/* ---- handshakes ----------------------------------------------------------------- */
static void bytes_go_both_ways(void)
{
	struct authority *a = new_authority("box"), *outside = new_authority("up");
	struct chan c, s;
	char b[64];
	int sv[2];

	pair(sv);
	trust(outside, a);
	OK(chan_client(&c, sv[0], outside, "api.example.com", NULL) == 0, "client side");
	OK(chan_server(&s, sv[1], a, "api.example.com") == 0, "server side");
	OK(chan_handshake(&c) == 0 && c.want_read, "the client waits for the server");
	OK(shake(&c, &s) == 1 && !c.shaking, "handshake: %s", c.why ? c.why : "done");
	OK(SSL_version(c.ssl) == TLS1_3_VERSION, "TLS 1.3");
	OK(chan_write(&c, "GET / HTTP/1.1\r\n", 16) == 16, "written");
	OK(chan_read(&s, b, 4) == 4 && memcmp(b, "GET ", 4) == 0, "a part is read");
	OK(chan_buffered(&s), "the rest is in our buffer");
	OK(chan_read(&s, b, sizeof(b)) == 12 && !chan_buffered(&s), "and then is not");
	OK(chan_read(&s, b, sizeof(b)) == -EAGAIN && s.want_read, "then it waits");
	OK(chan_shutdown(&c) == 1, "the client ends");
	OK(chan_read(&s, b, sizeof(b)) == 0 && s.eof, "an orderly end");
	OK(chan_write(&s, "late", 4) == 4 && chan_read(&c, b, 64) == 4,
	   "half-closed only");
	chan_clear(&c);
	OK(chan_read(&s, b, sizeof(b)) == 0, "still the end");
	chan_clear(&s);
	close(sv[0]);
	close(sv[1]);
	authority_free(a);
	authority_free(outside);
}

/* More than the socket takes: partial writes, then all of it arrives in order. */
static void bulk_arrives_whole(void)
{
	struct authority *a = new_authority("box"), *outside = new_authority("up");
	static unsigned char out[1 << 20], in[1 << 20];
	struct chan c, s;
	size_t sent = 0, got = 0;
	unsigned waited = 0;
	int sv[2];

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (unsigned char)(i * 131 >> 3);
	pair(sv);
	trust(outside, a);
	chan_client(&c, sv[0], outside, "192.0.2.1", NULL);
	chan_server(&s, sv[1], a, "192.0.2.1");
	OK(shake(&c, &s) == 1, "an address as text is verified as one");
	while (got < sizeof(in)) {
		ssize_t w = sent < sizeof(out)
				    ? chan_write(&c, out + sent, sizeof(out) - sent)
				    : 0;
		ssize_t r;

		if (w < 0 && w != -EAGAIN)
			break;
		sent += w > 0 ? (size_t)w : 0;
		waited += c.want_write;
		do {
			r = chan_read(&s, in + got, min_size(5000, sizeof(in) - got));
			got += r > 0 ? (size_t)r : 0;
		} while (r > 0 && got < sizeof(in));
		if (r <= 0 && r != -EAGAIN)
			break;
	}
	OK(got == sizeof(in) && memcmp(in, out, sizeof(in)) == 0, "1 MiB, %u waits",
	   waited);
	chan_clear(&c);
	chan_clear(&s);
	close(sv[0]);
	close(sv[1]);
	authority_free(a);
	authority_free(outside);
}

/* One attempt against a server with this certificate: what our client says. */
static int attempt(struct authority *outside, X509 *cert, EVP_PKEY *key, const char *name,
		   const struct addr *ip, const char **why)
{
	struct upstream u;
	struct chan c;
	int sv[2], r;

	pair(sv);
	upstream_open(&u, sv[1], cert, key);
	r = chan_client(&c, sv[0], outside, name, ip);
	if (r == 0)
		r = shake_upstream(&c, &u);
	*why = c.why;
	chan_clear(&c);
	upstream_close(&u);
	close(sv[0]);
	close(sv[1]);
	return r;
}

static void hostile_upstreams_are_refused(void)
{
	struct authority *a = new_authority("real"), *other = new_authority("fake");
	struct authority *outside = new_authority("up");
	X509 *good, *expired, *early, *self, *wrong;
	struct addr ip, ip2;
	const char *why = NULL;

	authority_ready(a);
	authority_ready(other);
	trust(outside, a);
	addr_parse("192.0.2.1", &ip);
	addr_parse("192.0.2.2", &ip2);
	good = cert_leaf("api.example.com", a->leaf_key, a->cert, a->key);
	wrong = cert_leaf("192.0.2.1", a->leaf_key, a->cert, a->key);
	expired = with_dates(good, a->key, -7200, -3600);
	early = with_dates(good, a->key, 3600, 7200);
	self = cert_leaf("api.example.com", a->leaf_key, other->cert, other->key);

	OK(attempt(outside, good, a->leaf_key, "api.example.com", NULL, &why) == 1,
	   "control: the right one is accepted");
	OK(attempt(outside, good, a->leaf_key, "API.example.com", NULL, &why) == 1,
	   "case does not matter");
	OK(attempt(outside, good, a->leaf_key, "evil.example.com", NULL, &why) == -EPROTO,
	   "wrong name: %s", why);
	OK(attempt(outside, good, a->leaf_key, NULL, &ip, &why) == -EPROTO, "address: %s",
	   why);
	OK(attempt(outside, wrong, a->leaf_key, NULL, &ip, &why) == 1, "its own address");
	OK(attempt(outside, wrong, a->leaf_key, NULL, &ip2, &why) == -EPROTO,
	   "another address: %s", why);
	OK(attempt(outside, expired, a->leaf_key, "api.example.com", NULL, &why) ==
		   -EPROTO,
	   "expired: %s", why);
	OK(attempt(outside, early, a->leaf_key, "api.example.com", NULL, &why) == -EPROTO,
	   "not yet valid: %s", why);
	OK(attempt(outside, self, a->leaf_key, "api.example.com", NULL, &why) == -EPROTO,
	   "untrusted issuer: %s", why);
	OK(attempt(outside, other->cert, other->key, "api.example.com", NULL, &why) ==
		   -EPROTO,
	   "self-signed: %s", why);
	OK(attempt(outside, a->cert, a->key, "api.example.com", NULL, &why) == -EPROTO,
	   "the trusted CA itself is no server: %s", why);
	OK(attempt(outside, good, a->leaf_key, NULL, NULL, &why) == -EINVAL,
	   "no name: %s", why);
	X509_free(good);
	X509_free(wrong);
	X509_free(expired);
	X509_free(early);
	X509_free(self);
	authority_free(a);
	authority_free(other);
	authority_free(outside);
}

static void nobody_is_trusted_by_default(void)
{
	struct authority *a = new_authority("real"), *outside = new_authority("up");
	const char *why = NULL;
	X509 *good;

	authority_ready(a);
	good = cert_leaf("api.example.com", a->leaf_key, a->cert, a->key);
	OK(attempt(outside, good, a->leaf_key, "api.example.com", NULL, &why) == -EPROTO,
	   "an empty trust store: %s", why);
	OK(authority_trust(outside, "no PEM at all", 13) == 0, "rubbish is passed over");
	OK(attempt(outside, good, a->leaf_key, "api.example.com", NULL, &why) == -EPROTO,
	   "and trusts nobody");
	trust(outside, a);
	OK(attempt(outside, good, a->leaf_key, "api.example.com", NULL, &why) == 1,
	   "what is added later counts");
	X509_free(good);
	authority_free(a);
	authority_free(outside);
}

/* A megabyte of certificates: refused by its announced size. */
static void huge_chains_are_refused(void)
{
	struct authority *a = new_authority("real"), *outside = new_authority("up");
	struct upstream u;
	struct chan c;
	X509 *good;
	int sv[2], r;

	authority_ready(a);
	trust(outside, a);
	pair(sv);
	good = cert_leaf("api.example.com", a->leaf_key, a->cert, a->key);
	upstream_open(&u, sv[1], good, a->leaf_key);
	for (int i = 0; i < 300; i++)
		SSL_CTX_add1_chain_cert(u.ctx, a->cert);
	chan_client(&c, sv[0], outside, "api.example.com", NULL);
	r = shake_upstream(&c, &u);
	OK(r == -EPROTO, "300 certificates: %s", c.why);
	chan_clear(&c);
	upstream_close(&u);
	close(sv[0]);
	close(sv[1]);
	X509_free(good);
	authority_free(a);
	authority_free(outside);
}

/* Tickets without end, and no data. */
static void endless_tickets_are_refused(void)
{
	struct authority *a = new_authority("real"), *outside = new_authority("up");
	struct upstream u;
	struct chan c;
	char b[16];
	ssize_t r;
	X509 *good;
	int sv[2];

	authority_ready(a);
	trust(outside, a);
	tcp_pair(sv);
	good = cert_leaf("api.example.com", a->leaf_key, a->cert, a->key);
	upstream_open(&u, sv[1], good, a->leaf_key);
	SSL_CTX_set_num_tickets(u.ctx, 5000);
	chan_client(&c, sv[0], outside, "api.example.com", NULL);
	OK(shake_upstream(&c, &u) == 1, "handshake with 5000 tickets");
	SSL_do_handshake(u.ssl);
	r = chan_read(&c, b, sizeof(b));
	OK(r == -EPROTO, "refused: %s", c.why);
	OK(chan_write(&c, "x", 1) == -EPROTO, "nothing is sent after that");
	OK(!chan_buffered(&c), "nor is there anything to read");
	chan_clear(&c);
	upstream_close(&u);
	close(sv[0]);
	close(sv[1]);
	X509_free(good);
	authority_free(a);
	authority_free(outside);
}

static void a_cut_is_no_end(void)
{
	struct authority *a = new_authority("box"), *outside = new_authority("up");
	struct chan c, s;
	char b[16];
	ssize_t r = 1;
	int sv[2];

	pair(sv);
	trust(outside, a);
	chan_client(&c, sv[0], outside, "api.example.com", NULL);
	chan_server(&s, sv[1], a, "api.example.com");
	shake(&c, &s);
	chan_clear(&s);
	close(sv[1]);
	r = chan_read(&c, b, sizeof(b));
	OK(r == -ECONNRESET && !c.eof, "cut: %s", c.why ? c.why : "?");
	r = chan_write(&c, "x", 1);
	OK(r < 0 && r != -EAGAIN, "a write fails, and no signal comes");
	OK(chan_shutdown(&c) == 1, "ending it is fine");
	chan_clear(&c);
	close(sv[0]);
	authority_free(a);
	authority_free(outside);
}

/* ---- protocols, versions, resumption -------------------------------------------- */
/* A program of the sandbox, as a plain OpenSSL client: its error, or 0. */
static int program(struct authority *a, int max_version, const char *alpn, size_t n)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl;
	struct chan s;
	int sv[2], r = 0, e = 0;

	pair(sv);
	SSL_CTX_set_max_proto_version(ctx, max_version);
	SSL_CTX_set_security_level(ctx, 0);
	if (n)
		SSL_CTX_set_alpn_protos(ctx, (const void *)alpn, (unsigned)n);
	ssl = SSL_new(ctx);
	SSL_set_fd(ssl, sv[0]);
	SSL_set_connect_state(ssl);
	chan_server(&s, sv[1], a, "api.example.com");
	for (int i = 0; i < 20 && r >= 0 && e == 0 && SSL_in_init(ssl); i++) {
		ERR_clear_error();
		if (SSL_do_handshake(ssl) != 1)
			e = ERR_GET_REASON(ERR_peek_error());
		r = s.shaking ? chan_handshake(&s) : 1;
	}
	if (e == 0 && r < 0) {
		ERR_clear_error();
		SSL_do_handshake(ssl);
		e = ERR_GET_REASON(ERR_peek_error());
	}
	if (e == 0 && n > 9 && !SSL_in_init(ssl)) {
		const unsigned char *p;
		unsigned len;

		SSL_get0_alpn_selected(ssl, &p, &len);
		OK(len == 8 && memcmp(p, "http/1.1", 8) == 0, "http/1.1 was chosen");
	}
	chan_clear(&s);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(sv[0]);
	close(sv[1]);
	return e;
}

static void versions_and_protocols(void)
{
	struct authority *a = new_authority("box");

	OK(program(a, TLS1_3_VERSION, "\2h2\10http/1.1", 12) == 0,
	   "h2 goes down to http/1.1");
	OK(program(a, TLS1_2_VERSION, "\10http/1.1", 9) == 0, "TLS 1.2");
	OK(program(a, TLS1_3_VERSION, NULL, 0) == 0, "no ALPN");
	OK(program(a, TLS1_3_VERSION, "\2h2", 3) ==
		   SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL,
	   "h2 alone is told so");
	OK(program(a, TLS1_1_VERSION, NULL, 0) != 0, "TLS 1.1 is refused");
	authority_free(a);
}

static bool resumed_once(struct authority *outside, struct upstream *u, const char *name,
			 int *ret)
{
	struct chan c;
	char b[8];
	bool hit;
	int sv[2];

	pair(sv);
	u->fd = sv[1];
	chan_client(&c, sv[0], outside, name, NULL);
	*ret = shake_upstream(&c, u);
	SSL_do_handshake(u->ssl);
	hit = SSL_session_reused(c.ssl);
	chan_read(&c, b, sizeof(b)); /* takes the tickets in */
	chan_clear(&c);
	SSL_free(u->ssl);
	u->ssl = NULL;
	close(sv[0]);
	close(sv[1]);
	return hit;
}

static void sessions_are_resumed_for_their_name_only(int version)
{
	struct authority *a = new_authority("real"), *outside = new_authority("up");
	struct upstream u;
	X509 *good;
	int r;

	authority_ready(a);
	trust(outside, a);
	good = cert_leaf("api.example.com", a->leaf_key, a->cert, a->key);
	upstream_open(&u, -1, good, a->leaf_key);
	SSL_CTX_set_max_proto_version(u.ctx, version);
	SSL_CTX_set_session_id_context(u.ctx, (const void *)"t", 1);
	OK(!resumed_once(outside, &u, "api.example.com", &r) && r == 1, "first: full");
	OK(outside->sessions.n == 1, "its session is kept");
	OK(!resumed_once(outside, &u, "evil.example.com", &r) && r == -EPROTO,
	   "another name is verified anew, and refused");
	OK(resumed_once(outside, &u, "api.example.com", &r) && r == 1, "second: resumed");
	trust(outside, a);
	OK(!resumed_once(outside, &u, "api.example.com", &r) && r == 1,
	   "a change of trust drops them");
	upstream_close(&u);
	X509_free(good);
	authority_free(a);
	authority_free(outside);
}

static void leafs_are_bounded(void)
{
	struct authority *a = new_authority("box");
	const char *why = NULL;
	char name[32];

	for (unsigned i = 0; i < LEAFS_MAX + 10; i++) {
		snprintf(name, sizeof(name), "h%u.example", i);
		SSL_free(authority_server_ssl(a, name, &why));
	}
	OK(a->leafs.n == LEAFS_MAX, "%zu certificates are kept", a->leafs.n);
	OK(!lru_get(&a->leafs, "h0.example"), "the oldest went");
	OK(lru_get(&a->leafs, "h10.example"), "the others did not");
	authority_free(a);
}

/* ---- Java ----------------------------------------------------------------------- */
static bool keytool(const char *path, char *out, size_t size)
{
	char cmd[256];
	size_t n = 0;
	ssize_t r;
	int p[2], status;
	pid_t pid;

	snprintf(cmd, sizeof(cmd),
		 "exec keytool -list -keystore %s -storepass changeit 2>&1", path);
	if (pipe2(p, O_CLOEXEC) < 0)
		abort();
	pid = fork();
	if (pid == 0) {
		dup2(p[1], 1);
		execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	while (n < size - 1 && (r = read(p[0], out + n, size - 1 - n)) > 0)
		n += (size_t)r;
	out[n] = 0;
	close(p[0]);
	waitpid(pid, &status, 0);
	return status == 0;
}

static void java_reads_the_store(void)
{
	struct authority *a = new_authority("box"), *b = new_authority("other");
	cleanup_buf struct buf jks = BUF_INIT(1 << 20);
	struct cove_error err = {0};
	char path[] = "/tmp/cove-jks-XXXXXX", out[4096];
	cleanup_fd int fd = mkostemp(path, O_CLOEXEC);

	trust(a, b);
	OK(authority_jks(a, &jks, &err) == 0, "a key store of %zu bytes", jks.len);
	OK(jks.len > 20 && memcmp(jks.data, "\xfe\xed\xfe\xed\0\0\0\2\0\0\0\2", 12) == 0,
	   "with two entries");
	if (write(fd, jks.data, jks.len) != (ssize_t)jks.len)
		abort();
	if (access("/usr/bin/keytool", X_OK) < 0)
		SKIP("no keytool");
	else
		OK(keytool(path, out, sizeof(out)) && strstr(out, "2 entries") &&
			   strstr(out, "cove, "),
		   "keytool lists both");
	unlink(path);
	authority_free(a);
	authority_free(b);
}

int main(void)
{
	leafs_hold_what_verifiers_ask_for();
	a_name_cannot_add_a_name();
	openssl_verifies();
	bytes_go_both_ways();
	bulk_arrives_whole();
	hostile_upstreams_are_refused();
	nobody_is_trusted_by_default();
	huge_chains_are_refused();
	endless_tickets_are_refused();
	a_cut_is_no_end();
	versions_and_protocols();
	sessions_are_resumed_for_their_name_only(TLS1_3_VERSION);
	sessions_are_resumed_for_their_name_only(TLS1_2_VERSION);
	leafs_are_bounded();
	java_reads_the_store();
	return tap_done();
}
