/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cove-egress - carries a sandbox's connections, or refuses them; started by libcove,
 * never by hand. Its only connection to the host is descriptor 3, see ipc/control.h.
 *
 * It confines itself before it reads its first byte: no file can be opened, no program
 * executed, no system call made but those of egress.seccomp. What it needs to know comes
 * over descriptor 3, what it may write to is handed in.
 */
#include "base/util.h"
#include "egress/conn.h"
#include "egress/lookup.h"
#include "ipc/control.h"
#include "os/confine.h"

#include <jansson.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "seccomp_egress.h"

/* Two descriptors a connection, and these for everything else: listeners, pipes, lookups.
 */
#define DESCRIPTORS_KEPT 512u
#define CONNS_MAX 32768u
#define MEMORY_MAX (4ull << 30)

/* ---- alone ------------------------------------------------------------------------ */

/* As many descriptors as the host lets us have, up to what we need. */
static unsigned raise_descriptors(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return 1024;
	if (l.rlim_max > 2 * CONNS_MAX + DESCRIPTORS_KEPT)
		l.rlim_max = 2 * CONNS_MAX + DESCRIPTORS_KEPT;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	return (unsigned)l.rlim_cur;
}

static int go_alone(void)
{
	int r = confine_alone(EGRESS_FD, MEMORY_MAX);

	signal(SIGPIPE, SIG_IGN);
	if (r == 0)
		r = confine_files(-1, 0, true); /* connecting is what it is for */
	if (r == -EOPNOTSUPP)
		r = 0; /* an old kernel: the filter has no call that opens anything */
	return r < 0 ? r : confine_calls(seccomp_egress, SECCOMP_EGRESS_LEN);
}

/* ---- what it begins with ---------------------------------------------------------- */

static void set_limits(struct egress_limits *l, unsigned descriptors)
{
	unsigned room = descriptors > 2 * DESCRIPTORS_KEPT
				? descriptors - DESCRIPTORS_KEPT
				: descriptors / 2;

	*l = (struct egress_limits){.conns = room / 2,
				    .undecided = 2048,
				    .inspected = 1024,
				    .who_ms = 700, /* and refuse_ms: within a second */
				    .dial_ms = 10000,
				    .first_bytes_ms = 5000,
				    .headers_ms = 15000,
				    .idle_ms = 0,
				    .half_ms = 300000,
				    .ask_ms = 60000,
				    .refuse_ms = 300};
	if (l->undecided > l->conns / 2)
		l->undecided = l->conns / 2;
	if (l->inspected > l->conns / 2)
		l->inspected = l->conns / 2;
}

/* Until the host says more: nothing. */
static int no_policy(struct egress *e, struct cove_error *err)
{
	static struct buf image = BUF_INIT(1u << 20);
	struct policy_source none = {0};

	if (policy_compile(&none, &image, err) < 0)
		return err->code;
	return policy_open(&e->policy, image.data, image.len, err);
}

static int set_up(struct egress *e, struct cove_error *err)
{
	int r = loop_new(&e->loop);

	e->log_fd = -1;
	if (r == 0)
		r = names_new(&e->names, NAMES_MAX);
	if (r == 0)
		r = lookup_new(&e->lookup, e->loop);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "set-up");
	if (no_policy(e, err) < 0)
		return err->code;
	r = egress_control(e, EGRESS_FD);
	return r < 0 ? fail(err, COVE_EIO, -r, "control") : 0;
}

/* Values come as JSON, and come back over TLS: libraries that read them keep nothing in
 * memory that they give back. */
static void free_wiped(void *p)
{
	if (p)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

static void *tls_malloc(size_t n, const char *file, int line)
{
	(void)file;
	(void)line;
	return malloc(n);
}

/* Never realloc(): it gives the old block back as it is. */
static void *tls_realloc(void *p, size_t n, const char *file, int line)
{
	void *larger;

	(void)file;
	(void)line;
	if (p && !n) {
		free_wiped(p);
		return NULL;
	}
	if (p && malloc_usable_size(p) >= n)
		return p;
	larger = malloc(n);
	if (p && larger) {
		memcpy(larger, p, malloc_usable_size(p));
		free_wiped(p);
	}
	return larger;
}

static void tls_free(void *p, const char *file, int line)
{
	(void)file;
	(void)line;
	free_wiped(p);
}

int main(int argc, char **argv)
{
	static struct egress e;
	struct cove_error err = {0};
	unsigned descriptors;
	struct stat st;
	int r;

	(void)argv;
	if (argc != 1 || fstat(EGRESS_FD, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		fprintf(stderr,
			"cove-egress: this is a part of cove; use 'cove run --net'\n");
		return 2;
	}
	json_set_alloc_funcs(malloc, free_wiped);
	if (!CRYPTO_set_mem_functions(tls_malloc, tls_realloc, tls_free))
		return 4;
	descriptors = raise_descriptors();
	if (go_alone() < 0)
		return 3;
	/* No configuration file decides what our TLS does. */
	if (sodium_init() < 0 || !OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL))
		return 4;
	set_limits(&e.limits, descriptors);
	if (set_up(&e, &err) < 0)
		return 5;
	r = loop_run(e.loop);
	egress_log_flush(&e);
	_exit(r < 0); /* the kernel frees faster than we would */
}
