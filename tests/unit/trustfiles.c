/* SPDX-License-Identifier: Apache-2.0 */
/* What programs in a sandbox find in files, for images of several shapes. */
#include "core/trustfiles.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"
#include "core/box.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char top[] = "/tmp/cove-trust-XXXXXX";
static const char ours[] =
	"-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n";

static void put(const char *name, const char *text)
{
	char path[512], *slash;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	slash = strrchr(path, '/');
	*slash = '\0';
	mkdir_p(path, 0755);
	*slash = '/';
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write_all(fd, text, strlen(text)) < 0)
		abort();
}

static void put_link(const char *name, const char *to)
{
	char path[512];

	put(name, "");
	snprintf(path, sizeof(path), "%s/%s", top, name);
	unlink(path);
	if (symlink(to, path) < 0)
		abort();
}

/* A box with this image directory, or the host's (NULL). */
static struct box *new_box(const char *image)
{
	struct box *b = calloc(1, sizeof(*b));
	struct store *st = calloc(1, sizeof(*st));
	char path[512];

	if (!b || !st)
		abort();
	snprintf(path, sizeof(path), "%s/run", top);
	st->run = strdup(path);
	put("run/box/lock", "");
	st->run_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	b->store = st;
	snprintf(b->name, sizeof(b->name), "box");
	b->spec.image.kind = image ? IMAGE_ROOTFS : IMAGE_HOST;
	snprintf(path, sizeof(path), "%s/%s", top, image ? image : "");
	b->spec.image.value = image ? strdup(path) : NULL;
	snprintf(b->image.root, sizeof(b->image.root), "%s", image ? path : "");
	return b;
}

static void free_box(struct box *b)
{
	trustfiles_clear(b);
	close(b->store->run_fd);
	free(b->store->run);
	free(b->store);
	free(b->spec.image.value);
	free(b);
}

static const struct place_file *find(const struct box *b, const char *target)
{
	for (size_t i = 0; i < b->config.n_files; i++)
		if (strcmp(b->config.files[i].target, target) == 0)
			return &b->config.files[i];
	return NULL;
}

static bool holds(const struct place_file *f, const char *text)
{
	cleanup_buf struct buf all = BUF_INIT(16 << 20);
	struct stat st;

	return f && stat(f->source, &st) == 0 && (st.st_mode & 0777) == 0644 &&
	       read_file_at(AT_FDCWD, f->source, &all) == 0 && all.data &&
	       strstr(all.data, text);
}

static off_t size_of(const struct place_file *f)
{
	struct stat st;

	return f && stat(f->source, &st) == 0 ? st.st_size : -1;
}

static bool empty(const struct place_file *f)
{
	return size_of(f) == 0;
}

static int key_store(void)
{
	int fd = memfd_create("jks", MFD_CLOEXEC);

	if (fd < 0 || write_all(fd, "a key store", 11) < 0)
		abort();
	return fd;
}

static void a_usual_image(void)
{
	struct cove_error err = {0};
	struct box *b;
	size_t n;

	put("deb/etc/ssl/certs/ca-certificates.crt", "theirs, no newline at the end");
	put_link("deb/usr/lib/ssl/cert.pem", "/etc/ssl/certs/ca-certificates.crt");
	put_link("deb/etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf");
	put("deb/run/lock", "");
	b = new_box("deb");
	OK(trustfiles_prepare(b, true, &err) == 0, "prepared: %s", err.msg);
	OK(!trustfiles_java(b), "no Java here");
	OK(trustfiles_unfilled(b) && empty(find(b, "/run/cove/ca.pem")) &&
		   holds(find(b, "/run/cove/ca-bundle.pem"), "theirs") &&
		   !holds(find(b, "/run/cove/ca-bundle.pem"), "ours"),
	   "only the image's at first");
	OK(trustfiles_fill(b, ours, -1, &err) == 0 && !trustfiles_unfilled(b), "filled");
	OK(trustfiles_fill(b, ours, -1, &err) == 0, "and again, by a new authority");
	OK(b->config.n_files == 4, "four files: %zu", b->config.n_files);
	OK(holds(find(b, "/run/cove/ca.pem"), ours) &&
		   !holds(find(b, "/run/cove/ca.pem"), "theirs"),
	   "ours alone");
	OK(holds(find(b, "/run/cove/ca-bundle.pem"), "at the end\n-----BEGIN") &&
		   size_of(find(b, "/run/cove/ca-bundle.pem")) ==
			   30 + (off_t)strlen(ours),
	   "both, once");
	OK(holds(find(b, "/etc/ssl/certs/ca-certificates.crt"), ours),
	   "over the image's");
	OK(holds(find(b, "/run/systemd/resolve/stub-resolv.conf"),
		 "nameserver 198.18.0.1"),
	   "the resolver is where the dangling symlink points");
	OK(trustfiles_env(b, &n) && n > 8, "%zu variables", n);
	free_box(b);
}

static void nothing_is_opened(void)
{
	struct cove_error err = {0};
	struct box *b = new_box("deb");
	size_t n;

	OK(trustfiles_prepare(b, false, &err) == 0 && b->config.n_files == 1,
	   "only the resolver");
	OK(!trustfiles_unfilled(b) && trustfiles_fill(b, ours, -1, &err) == COVE_EIO,
	   "nothing to fill");
	trustfiles_env(b, &n);
	OK(n == 0, "no variables");
	free_box(b);
}

/* Symlinks all over, absolute ones that would lead to the host, and a Java. */
static void an_image_of_symlinks(void)
{
	struct cove_error err = {0};
	struct box *b;
	cleanup_fd int jks = key_store();

	put("red/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "theirs\n");
	put_link("red/etc/pki/tls/certs/ca-bundle.crt",
		 "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem");
	put_link("red/etc/pki/tls/cert.pem", "certs/ca-bundle.crt");
	put_link("red/etc/ssl/certs", "../pki/tls/certs");
	put("red/etc/resolv.conf", "nameserver 192.0.2.1\n");
	put("red/usr/lib/jvm/java-17/lib/security/cacerts", "old");
	put_link("red/usr/lib/jvm/jre", "java-17");
	put_link("red/usr/lib/jvm/out/lib/security/cacerts", "/etc/passwd");
	put("red/usr/lib/jvm/dir/lib/security/cacerts/x", "a directory");
	b = new_box("red");
	OK(trustfiles_prepare(b, true, &err) == 0, "prepared: %s", err.msg);
	OK(trustfiles_java(b), "a Java is found");
	OK(holds(find(b, "/usr/lib/jvm/java-17/lib/security/cacerts"), "old"),
	   "as it is");
	OK(trustfiles_fill(b, ours, jks, &err) == 0, "filled: %s", err.msg);
	OK(b->config.n_files == 5, "each file once: %zu", b->config.n_files);
	OK(holds(find(b, "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"), ours),
	   "the file at the end of the symlinks");
	OK(holds(find(b, "/etc/resolv.conf"), "198.18.0.1"), "resolver");
	OK(holds(find(b, "/usr/lib/jvm/java-17/lib/security/cacerts"), "a key store"),
	   "key store");
	OK(!find(b, "/etc/passwd"), "not the host's file, nor one that is not there");
	free_box(b);
}

static void an_empty_image(void)
{
	struct cove_error err = {0};
	struct box *b;

	put("none/bin/sh", "");
	b = new_box("none");
	OK(trustfiles_prepare(b, true, &err) == 0 && b->config.n_files == 3,
	   "three files");
	OK(trustfiles_fill(b, ours, -1, &err) == 0, "filled");
	OK(holds(find(b, "/run/cove/ca-bundle.pem"), ours), "ours is the bundle");
	OK(find(b, "/etc/resolv.conf"), "resolver");
	free_box(b);
	b = new_box("not-there");
	OK(trustfiles_prepare(b, true, &err) == COVE_EIO && !b->config.files,
	   "no image: %s", err.msg);
	free_box(b);
}

/* /run and resolv.conf lead out by "..": both stay inside. */
static void a_hostile_image(void)
{
	struct cove_error err = {0};
	struct box *b;

	put("bad/x", "");
	put_link("bad/run", "../../../../../../tmp");
	put_link("bad/etc/resolv.conf", "../../../../../etc/shadow");
	put_link("bad/etc/ssl/cert.pem", "/proc/self/exe");
	b = new_box("bad");
	OK(trustfiles_prepare(b, true, &err) == 0 && b->config.n_files == 3, "three");
	OK(find(b, "/run/cove/ca.pem"), "a /run that leads nowhere is not followed");
	OK(find(b, "/etc/shadow"), "the image's own, in its own root");
	free_box(b);
}

static void the_host(void)
{
	struct cove_error err = {0};
	struct box *b = new_box(NULL);

	OK(trustfiles_prepare(b, true, &err) == 0, "prepared: %s", err.msg);
	OK(find(b, "/etc/resolv.conf") && find(b, "/run/cove/ca.pem"),
	   "in the usual places");
	free_box(b);
}

int main(void)
{
	if (!mkdtemp(top))
		abort();
	a_usual_image();
	nothing_is_opened();
	an_image_of_symlinks();
	an_empty_image();
	a_hostile_image();
	the_host();
	remove_tree_at(AT_FDCWD, top);
	return tap_done();
}
