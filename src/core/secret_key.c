/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of the secret store: a file that only its user can read, or an entry of the
 * kernel's user keyring.
 *
 * The keyring is never written to disk, but a reboot empties it, and what was kept under
 * its key must be set again. So it is used when asked for (COVE_SECRET_KEY=keyring), and
 * from then on as long as the key is there; every kept secret says which key it needs.
 */
#include "core/secret_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <linux/keyctl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* possessor and user: view, read, search; no others */
#define KEY_PERM 0x0b0b0000u

void secret_key_clear(struct secret_key *k)
{
	sodium_free(k->bytes);
	*k = (struct secret_key){0};
}

static int key_alloc(struct secret_key *k, struct cove_error *err)
{
	*k = (struct secret_key){0};
	if (sodium_init() < 0)
		return fail(err, COVE_EIO, 0, "libsodium");
	k->bytes = sodium_malloc(SECRET_KEY_BYTES);
	return k->bytes ? 0 : fail_nomem(err);
}

static void key_name_it(struct secret_key *k)
{
	static const char what[] = "cove secret key";

	crypto_generichash_state st;
	unsigned char full[crypto_generichash_BYTES_MIN];

	crypto_generichash_init(&st, k->bytes, SECRET_KEY_BYTES, sizeof(full));
	crypto_generichash_update(&st, (const unsigned char *)what, sizeof(what));
	crypto_generichash_final(&st, full, sizeof(full));
	memcpy(k->id, full, SECRET_KEY_ID);
	sodium_memzero(&st, sizeof(st));
}

/* ---- the file -------------------------------------------------------------------------
 */

static int file_read(int dir, struct secret_key *k)
{
	cleanup_fd int fd =
		openat(dir, SECRET_KEY_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return -EPERM;
	if (st.st_size != SECRET_KEY_BYTES ||
	    pread(fd, k->bytes, SECRET_KEY_BYTES, 0) != SECRET_KEY_BYTES)
		return -EBADMSG;
	k->place = KEY_IN_FILE;
	key_name_it(k);
	return 0;
}

/* Appears whole or not at all; the first of several makers wins. */
static int file_make(int dir, const unsigned char *bytes)
{
	char tmp[48];
	int r;

	snprintf(tmp, sizeof(tmp), "%s.%d", SECRET_KEY_FILE, (int)getpid());
	unlinkat(dir, tmp, 0);
	cleanup_fd int fd = openat(
		dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = write_all(fd, bytes, SECRET_KEY_BYTES);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && linkat(dir, tmp, dir, SECRET_KEY_FILE, 0) < 0 && errno != EEXIST)
		r = -errno;
	unlinkat(dir, tmp, 0);
	if (r == 0)
		fsync(dir);
	return r;
}

/* ---- the keyring ----------------------------------------------------------------------
 */

/* Two homes of one user have two keys. */
static void ring_name(const char *home, char out[64])
{
	unsigned char h[crypto_generichash_BYTES_MIN];
	char hex[17];

	crypto_generichash(h, sizeof(h), (const unsigned char *)home, strlen(home), NULL,
			   0);
	sodium_bin2hex(hex, sizeof(hex), h, 8);
	snprintf(out, 64, "cove:secrets:%s", hex);
}

static int ring_read(const char *home, struct secret_key *k)
{
	char name[64];
	long id;

	ring_name(home, name);
	id = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", name, 0);
	if (id < 0)
		return -errno;
	if (syscall(SYS_keyctl, KEYCTL_READ, id, k->bytes, SECRET_KEY_BYTES) !=
	    SECRET_KEY_BYTES)
		return errno ? -errno : -EBADMSG;
	k->place = KEY_IN_KEYRING;
	key_name_it(k);
	return 0;
}

static int ring_make(const char *home, const unsigned char *bytes)
{
	char name[64];
	long id;

	ring_name(home, name);
	id = syscall(SYS_add_key, "user", name, bytes, (size_t)SECRET_KEY_BYTES,
		     KEY_SPEC_USER_KEYRING);
	if (id < 0)
		return -errno;
	/* Readable by every session of this user, not only by the one that made it. */
	return syscall(SYS_keyctl, KEYCTL_SETPERM, id, KEY_PERM) < 0 ? -errno : 0;
}

/* ---- both -----------------------------------------------------------------------------
 */

static int place_read(enum secret_key_place place, int dir, const char *home,
		      struct secret_key *k)
{
	return place == KEY_IN_FILE ? file_read(dir, k) : ring_read(home, k);
}

static int place_make(enum secret_key_place place, int dir, const char *home,
		      struct secret_key *k)
{
	int r;

	randombytes_buf(k->bytes, SECRET_KEY_BYTES);
	r = place == KEY_IN_FILE ? file_make(dir, k->bytes) : ring_make(home, k->bytes);
	return r < 0 ? r : place_read(place, dir, home, k);
}

static int key_failed(const char *home, enum secret_key_place place, int r,
		      struct cove_error *err)
{
	if (place == KEY_IN_KEYRING) {
		fail(err, COVE_EIO, -r, "the kernel's user keyring");
		return hint(err, "COVE_SECRET_KEY=file keeps the key in a file");
	}
	if (r != -EPERM && r != -EBADMSG)
		return fail(err, COVE_EIO, -r, "%s/secrets/%s", home, SECRET_KEY_FILE);
	fail(err, COVE_EDAMAGED, 0, "%s/secrets/%s: %s", home, SECRET_KEY_FILE,
	     r == -EPERM ? "not a file of this user that others cannot read"
			 : "is not a key of 32 bytes");
	return hint(err,
		    "put the right one back; or remove it and set every secret again");
}

static int wanted_place(enum secret_key_place *ret, struct cove_error *err)
{
	const char *want = getenv("COVE_SECRET_KEY");

	if (!want || !*want)
		*ret = KEY_ANY;
	else if (strcmp(want, "keyring") == 0)
		*ret = KEY_IN_KEYRING;
	else if (strcmp(want, "file") == 0)
		*ret = KEY_IN_FILE;
	else
		return fail(err, COVE_EINVAL, 0,
			    "COVE_SECRET_KEY: '%.40s' is not keyring or file", want);
	return 0;
}

int secret_key_write(int dir, const char *home, struct secret_key *ret,
		     struct cove_error *err)
{
	enum secret_key_place place = KEY_ANY;
	int r;

	if (wanted_place(&place, err) < 0 || key_alloc(ret, err) < 0)
		return err->code;
	if (place == KEY_ANY && ring_read(home, ret) == 0)
		return 0;
	if (place == KEY_ANY)
		place = KEY_IN_FILE;
	r = place_read(place, dir, home, ret);
	if (r == -ENOENT || r == -ENOKEY)
		r = place_make(place, dir, home, ret);
	if (r == 0)
		return 0;
	secret_key_clear(ret);
	return key_failed(home, place, r, err);
}

int secret_key_read(int dir, const char *home, const unsigned char id[SECRET_KEY_ID],
		    struct secret_key *ret, struct cove_error *err)
{
	int r;

	if (key_alloc(ret, err) < 0)
		return err->code;
	if (ring_read(home, ret) == 0 && memcmp(ret->id, id, SECRET_KEY_ID) == 0)
		return 0;
	r = file_read(dir, ret);
	if (r == 0 && memcmp(ret->id, id, SECRET_KEY_ID) == 0)
		return 0;
	secret_key_clear(ret);
	if (r < 0 && r != -ENOENT)
		return key_failed(home, KEY_IN_FILE, r, err);
	fail(err, COVE_EDAMAGED, 0, "the key it was kept under is not there");
	return hint(err, "a key in the kernel's keyring is gone with a reboot; set the "
			 "secret again, or put the old key file back");
}
