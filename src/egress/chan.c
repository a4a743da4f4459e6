/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chan - see chan.h. TLS reads and writes the socket through a BIO of our own, which
 * sends without SIGPIPE and remembers whether the socket was empty: with read-ahead,
 * "want read" alone does not tell whether poll() will wake us.
 */
#include "egress/chan.h"

#include "base/util.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#define BIO_DRY 0x10000 /* a flag of ours in the BIO: the last recv() said EAGAIN */
#define QUIET_READS 8   /* buffers full of records without data: no peer needs that */

static int fd_of(BIO *b)
{
	return (int)(intptr_t)BIO_get_data(b);
}

static int sock_read(BIO *b, char *p, size_t n, size_t *done)
{
	ssize_t r;

	do
		r = recv(fd_of(b), p, n, 0);
	while (r < 0 && errno == EINTR);
	BIO_clear_flags(b, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY | BIO_DRY);
	if (r < 0 && errno == EAGAIN)
		BIO_set_flags(b, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY | BIO_DRY);
	if (r == 0)
		BIO_set_flags(b, BIO_FLAGS_IN_EOF);
	*done = r > 0 ? (size_t)r : 0;
	return r > 0;
}

static int sock_write(BIO *b, const char *p, size_t n, size_t *done)
{
	ssize_t r;

	do
		r = send(fd_of(b), p, n, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	BIO_clear_retry_flags(b);
	if (r < 0 && errno == EAGAIN)
		BIO_set_retry_write(b);
	*done = r > 0 ? (size_t)r : 0;
	return r > 0;
}

static long sock_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)num;
	(void)ptr;
	switch (cmd) {
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_EOF:
		return BIO_test_flags(b, BIO_FLAGS_IN_EOF) != 0;
	default:
		return 0;
	}
}

static BIO_METHOD *sock_method(void)
{
	static BIO_METHOD *m; /* one for the process */

	if (m)
		return m;
	m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cove socket");
	if (!m)
		return NULL;
	BIO_meth_set_read_ex(m, sock_read);
	BIO_meth_set_write_ex(m, sock_write);
	BIO_meth_set_ctrl(m, sock_ctrl);
	return m;
}

void chan_plain(struct chan *c, int fd)
{
	*c = (struct chan){.fd = fd};
}

static int chan_tls(struct chan *c, int fd, SSL *ssl)
{
	BIO_METHOD *m = sock_method();
	BIO *b = m ? BIO_new(m) : NULL;

	if (!b) {
		SSL_free(ssl);
		c->why = "out of memory";
		return -ENOMEM;
	}
	BIO_set_data(b, (void *)(intptr_t)fd);
	BIO_set_init(b, 1);
	SSL_set_bio(ssl, b, b);
	*c = (struct chan){.fd = fd, .ssl = ssl, .shaking = true};
	return 0;
}

int chan_server(struct chan *c, int fd, struct authority *a, const char *name)
{
	SSL *ssl;

	chan_plain(c, fd);
	ssl = authority_server_ssl(a, name, &c->why);
	return ssl ? chan_tls(c, fd, ssl) : -ENOMEM;
}

int chan_client(struct chan *c, int fd, struct authority *a, const char *name,
		const struct addr *ip)
{
	SSL *ssl;

	chan_plain(c, fd);
	if (!name && !ip) {
		c->why = "there is no name to verify";
		return -EINVAL;
	}
	ssl = authority_client_ssl(a, name, ip, &c->why);
	return ssl ? chan_tls(c, fd, ssl) : -ENOMEM;
}

/* The reason in words that last: OpenSSL's tables are static. */
static const char *reason(SSL *ssl)
{
	long verify = SSL_get_verify_result(ssl);
	unsigned long e = ERR_peek_error();
	const char *text;

	if (!SSL_is_server(ssl) && verify != X509_V_OK)
		return X509_verify_cert_error_string(verify);
	text = e ? ERR_reason_error_string(e) : NULL;
	return text ? text : "the connection broke";
}

static bool cut_off(void)
{
	unsigned long e = ERR_peek_error();

	return ERR_GET_LIB(e) == ERR_LIB_SSL &&
	       ERR_GET_REASON(e) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
}

/* What an SSL call that did not succeed means: -EAGAIN with want_* set, 0 at the orderly
 * end, or an error after which the connection is of no use. */
static int outcome(struct chan *c, int r)
{
	int sys = errno;

	switch (SSL_get_error(c->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		c->want_read = true;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		c->want_write = true;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		c->eof = true;
		return 0;
	case SSL_ERROR_SYSCALL:
		c->failed = true;
		c->why = "the connection broke";
		return sys ? -sys : -ECONNRESET;
	default:
		c->failed = true;
		if (cut_off()) {
			c->why = "the connection ended without a close_notify";
			return -ECONNRESET;
		}
		c->why = reason(c->ssl);
		return -EPROTO;
	}
}

static void begin(struct chan *c)
{
	c->want_read = c->want_write = false;
	errno = 0;
	ERR_clear_error();
}

/* A server that chooses a protocol which was not offered would be misread by us. */
static bool alpn_fits(const SSL *ssl)
{
	const unsigned char *p;
	unsigned n;

	SSL_get0_alpn_selected(ssl, &p, &n);
	return n == 0 || (n == 8 && memcmp(p, "http/1.1", 8) == 0);
}

int chan_handshake(struct chan *c)
{
	int r;

	if (!c->shaking)
		return 1;
	if (c->failed)
		return -EPROTO;
	begin(c);
	r = SSL_do_handshake(c->ssl);
	if (r == 1 && !alpn_fits(c->ssl)) {
		c->failed = true;
		c->why = "the server chose a protocol that was not offered";
		return -EPROTO;
	}
	if (r == 1) {
		c->shaking = false;
		return 1;
	}
	r = outcome(c, r);
	if (r == -EAGAIN)
		return 0;
	if (r == 0 || r == -ECONNRESET)
		c->why = "the connection ended during the TLS handshake";
	c->failed = true;
	return -EPROTO;
}

static ssize_t plain_read(struct chan *c, void *p, size_t n)
{
	ssize_t r;

	do
		r = recv(c->fd, p, n, 0);
	while (r < 0 && errno == EINTR);
	if (r > 0)
		return r;
	if (r == 0) {
		c->eof = true;
		return 0;
	}
	c->want_read = errno == EAGAIN;
	if (!c->want_read)
		c->why = "the connection broke";
	return -errno;
}

ssize_t chan_read(struct chan *c, void *p, size_t n)
{
	begin(c);
	c->drained = false;
	if (n == 0 || c->eof)
		return 0;
	if (!c->ssl)
		return plain_read(c, p, n);
	for (int i = 0; i < QUIET_READS && !c->failed; i++) {
		size_t done;
		int r = SSL_read_ex(c->ssl, p, n, &done);

		if (r == 1)
			return (ssize_t)min_size(done, n);
		r = outcome(c, r);
		if (r != -EAGAIN)
			return r;
		c->drained = BIO_test_flags(SSL_get_rbio(c->ssl), BIO_DRY) != 0;
		if (c->want_write || c->drained)
			return -EAGAIN;
	}
	if (!c->failed)
		c->why = "too many TLS records without data";
	c->failed = true;
	return -EPROTO;
}

static ssize_t plain_write(struct chan *c, const void *p, size_t n)
{
	ssize_t r;

	do
		r = send(c->fd, p, n, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	c->want_write = r < 0 ? errno == EAGAIN : (size_t)r < n;
	if (r < 0 && !c->want_write)
		c->why = "the connection broke";
	return r < 0 ? -errno : r;
}

/* One SSL_write() is one record here, so it goes on until all is taken. */
ssize_t chan_write(struct chan *c, const void *p, size_t n)
{
	size_t taken = 0;

	begin(c);
	if (!c->ssl)
		return n == 0 ? 0 : plain_write(c, p, n);
	while (taken < n && !c->failed) {
		size_t done;
		int r = SSL_write_ex(c->ssl, (const char *)p + taken, n - taken, &done);

		if (r == 1) {
			taken += done;
			continue;
		}
		r = outcome(c, r);
		if (r == -EAGAIN && taken > 0)
			break;
		return r == 0 ? -EPIPE : r;
	}
	return c->failed ? -EPROTO : (ssize_t)taken;
}

int chan_shutdown(struct chan *c)
{
	int r;

	begin(c);
	if (c->ssl && !c->shaking && !c->failed) {
		r = SSL_shutdown(c->ssl);
		if (r < 0 && outcome(c, r) == -EAGAIN && c->want_write)
			return 0;
	}
	shutdown(c->fd, SHUT_WR);
	return 1;
}

bool chan_buffered(const struct chan *c)
{
	return c->ssl && !c->shaking && !c->failed && !c->eof && !c->drained &&
	       SSL_has_pending(c->ssl);
}

void chan_clear(struct chan *c)
{
	SSL_free(c->ssl);
	*c = (struct chan){.fd = -1};
}
