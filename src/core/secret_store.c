/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HOME/secrets: one file for each secret, named like it.
 *
 *	"COVESEC1", id of the key (8), nonce (24), then XChaCha20-Poly1305 of
 *	u32 length of the hosts (little-endian), hosts "a,b,...", the value
 *
 * Associated data: everything before the nonce, and the name, so that a file under
 * another name is refused as surely as a changed bit.
 */
#include "core/secret_impl.h"

#include "base/io.h"
#include "base/redact.h"
#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#define MAGIC "COVESEC1"
#define NONCE crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG crypto_aead_xchacha20poly1305_ietf_ABYTES
#define HEAD (8 + SECRET_KEY_ID)
#define NAME_MAX_BYTES 128
#define HOSTS_MAX 16384
#define FILE_MAX (HEAD + NONCE + 4 + HOSTS_MAX + SECRET_VALUE_MAX + TAG)

int secret_open_dir(struct store *st, bool make, int *ret, struct cove_error *err)
{
	char path[4200];
	struct stat sb;

	snprintf(path, sizeof(path), "%s/secrets", st->home);
	if (make && mkdir_p(path, 0700) < 0)
		return fail(err, COVE_EIO, errno, "%s", path);
	cleanup_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fail(err, errno == ENOENT ? COVE_ENOENT : COVE_EIO, errno, "%s",
			    path);
	if (fstat(fd, &sb) < 0 || sb.st_uid != geteuid() || (sb.st_mode & 022)) {
		fail(err, COVE_EDENIED, 0, "%s: not this user's alone", path);
		return hint(err,
			    "chmod 700 it, or set COVE_HOME to a directory of yours");
	}
	*ret = take_fd(&fd);
	return 0;
}

static int check_name(const char *name, struct cove_error *err)
{
	size_t n = strlen(name);

	if (n == 0 || n > NAME_MAX_BYTES || (name[0] >= '0' && name[0] <= '9') ||
	    strspn(name,
		   "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") !=
		    n) {
		fail(err, COVE_EINVAL, 0, "'%.60s' is not a name for a secret", name);
		return hint(err, "a name is that of a variable: letters, digits and '_'");
	}
	return 0;
}

/* ---- the bytes ------------------------------------------------------------------------
 */

struct ad {
	unsigned char bytes[HEAD + NAME_MAX_BYTES];
	size_t n;
};

static void make_ad(struct ad *a, const unsigned char *head, const char *name)
{
	size_t n = strlen(name);

	memcpy(a->bytes, head, HEAD);
	memcpy(a->bytes + HEAD, name, n);
	a->n = HEAD + n;
}

/* Encrypts in place of nothing: *ret_n bytes into out, which has FILE_MAX. */
static int seal(const struct secret_key *key, const char *name, const char *value,
		size_t n, const char *hosts, unsigned char *out, size_t *ret_n)
{
	size_t n_hosts = strlen(hosts);
	unsigned char *plain = sodium_malloc(4 + n_hosts + n);
	unsigned long long len;
	struct ad a;

	if (!plain)
		return -ENOMEM;
	for (unsigned i = 0; i < 4; i++)
		plain[i] = (unsigned char)(n_hosts >> 8 * i);
	memcpy(plain + 4, hosts, n_hosts);
	memcpy(plain + 4 + n_hosts, value, n);
	memcpy(out, MAGIC, 8);
	memcpy(out + 8, key->id, SECRET_KEY_ID);
	randombytes_buf(out + HEAD, NONCE);
	make_ad(&a, out, name);
	crypto_aead_xchacha20poly1305_ietf_encrypt(out + HEAD + NONCE, &len, plain,
						   4 + n_hosts + n, a.bytes, a.n, NULL,
						   out + HEAD, key->bytes);
	sodium_free(plain);
	*ret_n = HEAD + NONCE + (size_t)len;
	return 0;
}

static int split(const unsigned char *plain, size_t n, struct secret *ret)
{
	size_t n_hosts = 0;

	for (unsigned i = 0; n >= 4 && i < 4; i++)
		n_hosts |= (size_t)plain[i] << 8 * i;
	if (n < 5 || n_hosts > n - 5 || n - 4 - n_hosts > SECRET_VALUE_MAX)
		return -EBADMSG;
	ret->n = n - 4 - n_hosts;
	ret->hosts = strndup((const char *)plain + 4, n_hosts);
	ret->value = secret_alloc(ret->n);
	if (!ret->hosts || !ret->value)
		return -ENOMEM;
	memcpy(ret->value, plain + 4 + n_hosts, ret->n);
	return 0;
}

static int unseal(const struct secret_key *key, const char *name, const unsigned char *in,
		  size_t n, struct secret *ret)
{
	size_t ct = n - HEAD - NONCE;
	unsigned char *plain = sodium_malloc(ct);
	unsigned long long len = 0;
	struct ad a;
	int r;

	if (!plain)
		return -ENOMEM;
	make_ad(&a, in, name);
	r = crypto_aead_xchacha20poly1305_ietf_decrypt(plain, &len, NULL,
						       in + HEAD + NONCE, ct, a.bytes,
						       a.n, in + HEAD, key->bytes);
	r = r < 0 ? -EBADMSG : split(plain, (size_t)len, ret);
	sodium_free(plain);
	return r;
}

/* ---- files
 * ------------------------------------------------------------------------------ */

int secret_store_set(struct store *st, const char *name, const char *value, size_t n,
		     const char *hosts, struct cove_error *err)
{
	cleanup_free unsigned char *out = malloc(FILE_MAX);
	struct secret_key key;
	cleanup_fd int dir = -1;
	size_t len = 0;
	int r;

	if (!out)
		return fail_nomem(err);
	if (check_name(name, err) < 0)
		return err->code;
	if (n == 0 || n > SECRET_VALUE_MAX)
		return fail(err, COVE_EINVAL, 0, "secret %s: a value has 1 to %d bytes",
			    name, SECRET_VALUE_MAX);
	redact_add(name, value, n);
	if (strlen(hosts) > HOSTS_MAX)
		return fail(err, COVE_EINVAL, 0, "secret %s: too many hosts", name);
	if (secret_open_dir(st, true, &dir, err) < 0)
		return wrap(err, "secret %s", name);
	/* One at a time: two of them must not make a key each. Goes with the descriptor.
	 */
	while (flock(dir, LOCK_EX) < 0)
		if (errno != EINTR)
			return fail(err, COVE_EIO, errno, "secret %s: lock", name);
	if (secret_key_write(dir, st->home, &key, err) < 0)
		return wrap(err, "secret %s", name);
	r = seal(&key, name, value, n, hosts, out, &len);
	if (r == 0)
		r = write_file_atomic(dir, name, out, len, 0600, 1);
	secret_key_clear(&key);
	return r < 0 ? fail(err, COVE_EIO, -r, "secret %s", name) : 0;
}

static int damaged(const char *name, const char *why, struct cove_error *err)
{
	fail(err, COVE_EDAMAGED, 0, "secret %s: %s", name, why);
	return hint(err, "'cove secret set %s' writes it anew", name);
}

static int read_entry(int dir, const char *name, struct buf *b, struct cove_error *err)
{
	cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat sb;

	if (fd < 0 && errno == ENOENT) {
		fail(err, COVE_ENOENT, 0, "secret %s: there is none", name);
		return hint(err, "'cove secret ls' lists them");
	}
	if (fd < 0 && errno == ELOOP)
		return damaged(name, "a link, not a file", err);
	if (fd < 0 || fstat(fd, &sb) < 0)
		return fail(err, COVE_EIO, errno, "secret %s", name);
	if (!S_ISREG(sb.st_mode) || sb.st_uid != geteuid() || (sb.st_mode & 077))
		return damaged(name, "not a file of this user that others cannot read",
			       err);
	if (read_fd(fd, b) < 0 || b->len < HEAD + NONCE + TAG + 5 ||
	    memcmp(b->data, MAGIC, 8) != 0)
		return damaged(name, "its file is not one of ours", err);
	return 0;
}

static int get(struct store *st, int dir, const char *name, struct secret *ret,
	       enum secret_key_place *ret_place, struct cove_error *err)
{
	cleanup_buf struct buf b = BUF_INIT(FILE_MAX);
	const unsigned char *p;
	struct secret_key key;
	int r;

	if (read_entry(dir, name, &b, err) < 0)
		return err->code;
	p = (const unsigned char *)b.data;
	if (secret_key_read(dir, st->home, p + 8, &key, err) < 0)
		return wrap(err, "secret %s", name);
	*ret_place = key.place;
	r = unseal(&key, name, p, b.len, ret);
	secret_key_clear(&key);
	if (r < 0)
		secret_clear(ret);
	if (r == -ENOMEM)
		return fail_nomem(err);
	if (r < 0)
		return damaged(name,
			       "cannot be decrypted: its file was changed, or is "
			       "another secret's",
			       err);
	redact_add(name, ret->value, ret->n);
	return 0;
}

int secret_store_get(struct store *st, const char *name, struct secret *ret,
		     struct cove_error *err)
{
	struct secret out = {.source = "store"};
	enum secret_key_place place;
	cleanup_fd int dir = -1;

	if (check_name(name, err) < 0 || secret_open_dir(st, false, &dir, err) < 0 ||
	    get(st, dir, name, &out, &place, err) < 0)
		return err->code;
	out.name = strdup(name);
	if (!out.name) {
		secret_clear(&out);
		return fail_nomem(err);
	}
	*ret = out;
	return 0;
}

int secret_store_remove(struct store *st, const char *name, struct cove_error *err)
{
	cleanup_fd int dir = -1;

	if (check_name(name, err) < 0)
		return err->code;
	if (secret_open_dir(st, false, &dir, err) < 0 && err->code != COVE_ENOENT)
		return err->code;
	if (dir >= 0 && unlinkat(dir, name, 0) == 0) {
		fsync(dir);
		return 0;
	}
	if (dir >= 0 && errno != ENOENT)
		return fail(err, COVE_EIO, errno, "secret %s", name);
	fail(err, COVE_ENOENT, 0, "secret %s: there is none", name);
	return hint(err, "'cove secret ls' lists them");
}

/* ---- the list
 * ---------------------------------------------------------------------------- */

static json_t *host_list(const char *p)
{
	json_t *list = json_array();

	while (list && *p) {
		size_t n = strcspn(p, ",");

		json_array_append_new(list, json_stringn(p, n));
		p += n + (p[n] == ',');
	}
	return list;
}

static json_t *list_one(struct store *st, int dir, const char *name)
{
	json_t *o = json_pack("{s:s}", "name", name);
	struct cove_error why = {0};
	enum secret_key_place place;
	struct secret s = {0};
	struct stat sb;

	if (!o)
		return NULL;
	if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0)
		json_object_set_new(o, "changed", json_integer(sb.st_mtime));
	if (get(st, dir, name, &s, &place, &why) < 0) {
		const char *text = strstr(why.msg, ": "); /* after "secret NAME" */

		json_object_set_new(o, "problem", json_string(text ? text + 2 : why.msg));
		return o;
	}
	json_object_set_new(o, "hosts", host_list(s.hosts));
	json_object_set_new(o, "key",
			    json_string(place == KEY_IN_KEYRING ? "keyring" : "file"));
	secret_clear(&s);
	return o;
}

static int wanted(const struct dirent *e)
{
	struct cove_error ignored;

	return check_name(e->d_name, &ignored) == 0;
}

json_t *secret_store_list(struct store *st, struct cove_error *err)
{
	json_t *list = json_array();
	struct dirent **names = NULL;
	cleanup_fd int dir = -1;
	char path[4200];
	int n;

	if (!list) {
		fail_nomem(err);
		return NULL;
	}
	if (secret_open_dir(st, false, &dir, err) < 0) {
		if (err->code == COVE_ENOENT)
			return list;
		json_decref(list);
		return NULL;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", dir);
	n = scandir(path, &names, wanted, alphasort);
	for (int i = 0; i < n; i++) {
		json_array_append_new(list, list_one(st, dir, names[i]->d_name));
		free(names[i]);
	}
	free(names);
	return list;
}
