/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trustfiles - see trustfiles.h.
 *
 * The image is somebody's work: its bundle is read with a bound, and what is bound over
 * is the file at the end of its symlinks. The backend follows none on its way there.
 */
#include "core/trustfiles.h"

#include "base/io.h"
#include "base/util.h"
#include "core/box.h"
#include "core/imageview.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define FILES_MAX 32
#define TEXT_MAX 32768 /* of all their paths */
#define BUNDLE_MAX (8u << 20)
#define KEY_STORE_MAX (16u << 20)
#define CA "/run/cove/ca.pem"
#define BUNDLE "/run/cove/ca-bundle.pem"

/* 198.18.0.1 is nobody: whatever is asked for, on port 53, is answered by us. */
static const char resolv_conf[] =
	"# Names are resolved by the sandbox's network policy.\n"
	"nameserver 198.18.0.1\n"
	"options edns0\n";

/* The first that the image has is its bundle; all of them get the new one. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/pki/tls/cert.pem",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
	"/usr/local/share/ca-certificates/ca-bundle.crt",
	"/usr/lib/ssl/cert.pem",
};

/* A '*' stands for one name. */
static const char *const key_stores[] = {
	"/etc/ssl/certs/java/cacerts",
	"/etc/pki/java/cacerts",
	"/etc/pki/ca-trust/extracted/java/cacerts",
	"/usr/lib/jvm/*/lib/security/cacerts",
	"/usr/lib/jvm/*/jre/lib/security/cacerts",
	"/usr/lib64/jvm/*/lib/security/cacerts",
	"/usr/java/*/lib/security/cacerts",
	"/usr/local/*/lib/security/cacerts",
	"/opt/java/*/lib/security/cacerts",
	"/opt/*/lib/security/cacerts",
};

/* SSL_CERT_FILE: OpenSSL, Go, Ruby, Rust. The others do not ask OpenSSL for its default,
 * or are told a file by their environment elsewhere. Node and Deno add ours to their own.
 */
static const char *const environment[] = {
	"SSL_CERT_FILE=" BUNDLE,        "CURL_CA_BUNDLE=" BUNDLE,
	"REQUESTS_CA_BUNDLE=" BUNDLE,   "PIP_CERT=" BUNDLE,
	"GIT_SSL_CAINFO=" BUNDLE,       "AWS_CA_BUNDLE=" BUNDLE,
	"CARGO_HTTP_CAINFO=" BUNDLE,    "NIX_SSL_CERT_FILE=" BUNDLE,
	"PERL_LWP_SSL_CA_FILE=" BUNDLE, "HEX_CACERTS_PATH=" BUNDLE,
	"NODE_EXTRA_CA_CERTS=" CA,      "DENO_CERT=" CA,
};

struct trustfiles {
	struct place_file file[FILES_MAX];
	size_t n;
	char text[TEXT_MAX]; /* behind them */
	size_t n_text;
	bool trusts, filled;
	size_t own_bundle; /* bytes of the image's in ca-bundle.pem */
	unsigned stores;   /* cacerts0, cacerts1, ... */
};

/* ---- the resolver's file ------------------------------------------------------------
 */

/* An absolute path without "." and "..", by its text. */
static int flatten(const char *path, char out[PATH_MAX])
{
	size_t n = 0;

	while (*path) {
		size_t len = strcspn(path, "/");

		if (len == 2 && memcmp(path, "..", 2) == 0) {
			while (n > 0 && out[--n] != '/')
				;
		} else if (len > 0 && !(len == 1 && *path == '.')) {
			if (n + len + 2 > PATH_MAX)
				return -ENAMETOOLONG;
			out[n++] = '/';
			memcpy(out + n, path, len);
			n += len;
		}
		path += len + (path[len] == '/');
	}
	out[n] = '\0';
	return n ? 0 : -EINVAL;
}

/* The image's resolv.conf is often a symlink into a /run that is empty. */
static int resolv_place(const struct imageview *im, char out[PATH_MAX])
{
	char link[PATH_MAX], whole[2 * PATH_MAX];
	ssize_t n;
	cleanup_fd int etc = imageview_look(im, "/etc", O_PATH | O_DIRECTORY);

	if (imageview_real(im, "/etc/resolv.conf", S_IFREG, out) == 0)
		return 0;
	n = etc < 0 ? -1 : readlinkat(etc, "resolv.conf", link, sizeof(link) - 1);
	if (n <= 0)
		return imageview_place(im, "/etc", "resolv.conf", out);
	link[n] = '\0';
	snprintf(whole, sizeof(whole), "%s%s", link[0] == '/' ? "" : "/etc/", link);
	return flatten(whole, out);
}

/* ---- the list --------------------------------------------------------------------- */

static bool is_target(const struct trustfiles *t, const char *target)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->file[i].target, target) == 0)
			return true;
	return false;
}

static const char *keep(struct trustfiles *t, const char *s)
{
	size_t n = strlen(s) + 1;
	char *at = t->text + t->n_text;

	memcpy(at, s, n);
	t->n_text += n;
	return at;
}

/* Two names for one file are one; what does not fit is left out. */
static int add(struct trustfiles *t, const char *source, const char *target,
	       bool optional)
{
	if (is_target(t, target))
		return 0;
	if (t->n == FILES_MAX ||
	    strlen(source) + strlen(target) + 2 > sizeof(t->text) - t->n_text)
		return optional ? 0 : -E2BIG;
	t->file[t->n++] = (struct place_file){keep(t, source), keep(t, target), optional};
	return 0;
}

static int open_run(const struct box *b, const char *file, int flags)
{
	char path[SPEC_NAME_MAX + 32];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", b->name, file);
	fd = openat(b->store->run_fd, path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | flags,
		    0644);
	return fd < 0 ? -errno : fd;
}

/* Makes RUN/NAME/file; its path goes to out. The directory is closed to others, and the
 * sandbox's user may be one of them. */
static int write_run(const struct box *b, const char *file, const void *p, size_t n,
		     char out[PATH_MAX])
{
	cleanup_fd int fd = open_run(b, file, O_CREAT | O_TRUNC);
	int r;

	if (fd < 0)
		return fd;
	if (fchmod(fd, 0644) < 0)
		return -errno;
	r = write_all(fd, p, n);
	return r < 0 ? r : store_run_path(b->store, b->name, file, out, PATH_MAX);
}

/* The bytes of a regular file, up to max, to the end of another; how many, or -errno. */
static ssize_t copy_bytes(int from, int to, size_t max)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > max)
		return -EFBIG;
	while (at < st.st_size) {
		ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break; /* it has become shorter */
	}
	return at;
}

/* Makes RUN/NAME/file with the bytes of another. */
static ssize_t copy_run(const struct box *b, const char *file, int from, size_t max,
			char out[PATH_MAX])
{
	int r = write_run(b, file, "", 0, out);
	cleanup_fd int fd = r < 0 ? r : open_run(b, file, 0);

	return fd < 0 ? fd : copy_bytes(from, fd, max);
}

/* What is there from `at` on becomes this. */
static int rewrite_run(const struct box *b, const char *file, size_t at, const void *p,
		       size_t n)
{
	cleanup_fd int fd = open_run(b, file, 0);
	int r;

	if (fd < 0)
		return fd;
	if (lseek(fd, (off_t)at, SEEK_SET) < 0)
		return -errno;
	r = write_all(fd, p, n);
	return r == 0 && ftruncate(fd, (off_t)(at + n)) < 0 ? -errno : r;
}

/* ---- resolver, bundle, key store -------------------------------------------------- */

static int make_resolver(struct box *b, const struct imageview *im)
{
	char source[PATH_MAX], target[PATH_MAX] = "/etc/resolv.conf";
	int r = write_run(b, "resolv.conf", resolv_conf, strlen(resolv_conf), source);

	/* the host image has an /etc of our making */
	if (r == 0 && b->image.root[0])
		r = resolv_place(im, target);
	return r < 0 ? r : add(b->trust, source, target, true);
}

/* The image's own certificates, if it has a bundle that can be read. */
static int copy_bundle(struct box *b, const struct imageview *im, char out[PATH_MAX])
{
	for (size_t i = 0; i < ARRAY_LEN(bundles); i++) {
		cleanup_fd int fd = imageview_look(im, bundles[i], O_RDONLY | O_NONBLOCK);
		ssize_t n =
			fd < 0 ? fd : copy_run(b, "ca-bundle.pem", fd, BUNDLE_MAX, out);

		if (n <= 0)
			continue;
		b->trust->own_bundle = (size_t)n + 1;
		return rewrite_run(b, "ca-bundle.pem", (size_t)n, "\n", 1);
	}
	return write_run(b, "ca-bundle.pem", "", 0, out);
}

static int place_ours(struct box *b, const struct imageview *im, const char *source,
		      const char *name)
{
	char target[PATH_MAX];
	int r = imageview_place(im, "/run", name, target);

	return r < 0 ? r : add(b->trust, source, target, false);
}

static int make_bundle(struct box *b, const struct imageview *im)
{
	char source[PATH_MAX], target[PATH_MAX];
	int r = write_run(b, "ca.pem", "", 0, source);

	if (r == 0)
		r = place_ours(b, im, source, "cove/ca.pem");
	if (r == 0)
		r = copy_bundle(b, im, source);
	if (r == 0)
		r = place_ours(b, im, source, "cove/ca-bundle.pem");
	for (size_t i = 0; i < ARRAY_LEN(bundles) && r == 0; i++)
		if (imageview_real(im, bundles[i], S_IFREG, target) == 0)
			r = add(b->trust, source, target, true);
	return r;
}

static void store_name(char out[24], unsigned i)
{
	snprintf(out, 24, "cacerts%u", i);
}

struct cover {
	struct box *b;
	int r;
};

/* A copy of this key store of the image, over it. What cannot be read is of no use to the
 * sandbox either. */
static bool cover_store(void *arg, const struct imageview *im, const char *path)
{
	struct cover *c = arg;
	struct trustfiles *t = c->b->trust;
	char target[PATH_MAX], source[PATH_MAX], name[24];

	if (imageview_real(im, path, S_IFREG, target) < 0 || is_target(t, target) ||
	    t->n == FILES_MAX)
		return false;
	cleanup_fd int fd = imageview_look(im, path, O_RDONLY | O_NONBLOCK);
	store_name(name, t->stores);
	if (fd < 0 || copy_run(c->b, name, fd, KEY_STORE_MAX, source) < 0)
		return false;
	c->r = add(t, source, target, true);
	t->stores++;
	return c->r < 0;
}

static int make_key_stores(struct box *b, const struct imageview *im)
{
	struct cover c = {b, 0};

	for (size_t i = 0; i < ARRAY_LEN(key_stores) && c.r == 0; i++)
		imageview_each(im, key_stores[i], cover_store, &c);
	return c.r;
}

int trustfiles_prepare(struct box *b, bool trust, struct cove_error *err)
{
	struct imageview im = {.root = -1};
	int r;

	trustfiles_clear(b);
	b->trust = calloc(1, sizeof(*b->trust));
	if (!b->trust)
		return fail_nomem(err);
	b->trust->trusts = trust;
	r = imageview_open(&im, b->image.root[0] ? b->image.root : "/");
	if (r == 0)
		r = make_resolver(b, &im);
	if (r == 0 && trust)
		r = make_bundle(b, &im);
	if (r == 0 && trust)
		r = make_key_stores(b, &im);
	imageview_close(&im);
	if (r < 0) {
		trustfiles_clear(b);
		return fail(err, COVE_EIO, -r, "network: files for the sandbox");
	}
	b->config.files = b->trust->file;
	b->config.n_files = b->trust->n;
	return 0;
}

bool trustfiles_java(const struct box *b)
{
	return b->trust && b->trust->stores;
}

bool trustfiles_unfilled(const struct box *b)
{
	return b->trust && b->trust->trusts && !b->trust->filled;
}

/* The role made it: its size is bounded as everything that comes from there. */
static int fill_stores(struct box *b, int jks)
{
	int r = 0;

	for (unsigned i = 0; i < b->trust->stores && r == 0; i++) {
		char name[24];

		store_name(name, i);
		cleanup_fd int fd = open_run(b, name, 0);
		ssize_t n = fd < 0 ? fd : copy_bytes(jks, fd, KEY_STORE_MAX);

		r = n < 0 ? (int)n : 0;
		if (r == 0 && ftruncate(fd, n) < 0)
			r = -errno;
	}
	return r;
}

int trustfiles_fill(struct box *b, const char *pem, int jks, struct cove_error *err)
{
	size_t n = strlen(pem);
	int r = -EINVAL;

	if (b->trust && b->trust->trusts)
		r = rewrite_run(b, "ca.pem", 0, pem, n);
	if (r == 0)
		r = rewrite_run(b, "ca-bundle.pem", b->trust->own_bundle, pem, n);
	if (r == 0 && jks >= 0)
		r = fill_stores(b, jks);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "network: files for the sandbox");
	b->trust->filled = true;
	return 0;
}

void trustfiles_clear(struct box *b)
{
	b->config.files = NULL;
	b->config.n_files = 0;
	free(take_ptr(b->trust));
}

const char *const *trustfiles_env(const struct box *b, size_t *ret_n)
{
	*ret_n = b->trust && b->trust->trusts ? ARRAY_LEN(environment) : 0;
	return environment;
}
