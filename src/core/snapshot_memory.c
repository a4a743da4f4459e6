/* SPDX-License-Identifier: Apache-2.0 */
#include "core/snapshot_memory.h"

#include "base/io.h"
#include "base/util.h"
#include "core/box.h"
#include "core/secret_impl.h"
#include "core/snapshot_impl.h"
#include "core/store_impl.h"
#include "vm/state.h"

#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define MAGIC "COVEKEY1"
#define NONCE crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES crypto_aead_xchacha20poly1305_ietf_ABYTES
#define HEAD (8 + SECRET_KEY_ID)
#define KEY_FILE_BYTES (HEAD + NONCE + SEAL_KEY + TAG_BYTES)
#define READ_SIZE (256u * 1024)
#define READ_MS 20000 /* without a byte: QEMU writes nothing */
/* What QEMU writes is the guest's memory once, with a few bytes for each page, and its
 * devices. One that the guest has taken over is not to fill the disk, nor to go on for
 * ever. */
#define MORE_THAN_MEMORY (64ull << 20)
#define PAGE_SHARE 128 /* of its memory: what stands in front of its pages */
#define SAVE_MS 120000
#define SAVE_MS_PER_MIB 250

/* ---- the key -------------------------------------------------------------------- */

/* What the key is bound to: everything that is in front of it, and the snapshot. */
struct binding {
	uint8_t head[HEAD], meta[crypto_generichash_BYTES];
};

static int bind_to(struct binding *b, int dir, const uint8_t *head)
{
	cleanup_buf struct buf meta = BUF_INIT(META_MAX);
	int r = read_file_at(dir, SNAPSHOT_META, &meta);

	if (r < 0)
		return r;
	memcpy(b->head, head, HEAD);
	crypto_generichash(b->meta, sizeof(b->meta), (const uint8_t *)meta.data, meta.len,
			   NULL, 0);
	return 0;
}

int memory_write_key(struct store *st, int dir, const uint8_t key[SEAL_KEY],
		     struct cove_error *err)
{
	uint8_t out[KEY_FILE_BYTES];
	struct secret_key user;
	struct binding b;
	cleanup_fd int secrets = -1;
	int r;

	if (secret_open_dir(st, true, &secrets, err) < 0 ||
	    secret_key_write(secrets, st->home, &user, err) < 0)
		return err->code;
	memcpy(out, MAGIC, 8);
	memcpy(out + 8, user.id, SECRET_KEY_ID);
	randombytes_buf(out + HEAD, NONCE);
	r = bind_to(&b, dir, out);
	if (r == 0) {
		crypto_aead_xchacha20poly1305_ietf_encrypt(
			out + HEAD + NONCE, NULL, key, SEAL_KEY, (const uint8_t *)&b,
			sizeof(b), NULL, out + HEAD, user.bytes);
		r = write_file_atomic(dir, MEMORY_KEY, (const char *)out, sizeof(out),
				      0600, 1);
	}
	secret_key_clear(&user);
	return r < 0 ? fail(err, COVE_EIO, -r, "the key of the memory") : 0;
}

static int bad_key(const char *why, struct cove_error *err)
{
	fail(err, COVE_EDAMAGED, 0, "the key of the saved memory %s", why);
	return hint(err, "its files can be restored: --files-only");
}

static int open_key(struct store *st, int dir, uint8_t key[SEAL_KEY],
		    struct cove_error *err)
{
	cleanup_buf struct buf in = BUF_INIT(4096);
	const uint8_t *p;
	struct secret_key user;
	struct binding b;
	cleanup_fd int secrets = -1;
	int r = read_file_at(dir, MEMORY_KEY, &in);

	if (r == -ENOENT)
		return bad_key("is not there", err);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "the key of the saved memory");
	p = (const uint8_t *)in.data;
	if (in.len != KEY_FILE_BYTES || memcmp(p, MAGIC, 8) != 0)
		return bad_key("is damaged", err);
	r = bind_to(&b, dir, p);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "the snapshot's " SNAPSHOT_META);
	if (secret_open_dir(st, false, &secrets, err) < 0 ||
	    secret_key_read(secrets, st->home, p + 8, &user, err) < 0) {
		*err = (struct cove_error){0};
		return bad_key("needs a key of this user that is not there", err);
	}
	r = crypto_aead_xchacha20poly1305_ietf_decrypt(
		key, NULL, NULL, p + HEAD + NONCE, SEAL_KEY + TAG_BYTES,
		(const uint8_t *)&b, sizeof(b), p + HEAD, user.bytes);
	secret_key_clear(&user);
	return r ? bad_key("is damaged, or is another snapshot's", err) : 0;
}

bool memory_has_key(int dir)
{
	return faccessat(dir, MEMORY_KEY, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int memory_shred(int dir)
{
	uint8_t noise[KEY_FILE_BYTES];
	cleanup_fd int fd = openat(dir, MEMORY_KEY, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (sodium_init() < 0)
		return -ENOSYS;
	randombytes_buf(noise, sizeof(noise));
	r = write_all(fd, noise, sizeof(noise));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && unlinkat(dir, MEMORY_KEY, 0) < 0)
		r = -errno;
	return r == 0 && fsync(dir) < 0 ? -errno : r;
}

/* ---- saving --------------------------------------------------------------------- */

struct saving {
	struct cut *c;
	int run;  /* RUN/NAME */
	int pipe; /* our end */
	struct seal seal;
	bool sealing;
	uint64_t max; /* bytes that QEMU may write */
	int64_t until;
};

static void set_bounds(struct saving *s, const json_t *head)
{
	json_int_t n = json_integer_value(
		json_object_get(json_object_get(head, "machine"), "memory"));
	uint64_t memory = n > 0 ? (uint64_t)n : 0;

	s->max = memory + memory / PAGE_SHARE + MORE_THAN_MEMORY;
	s->until = now_ms() + SAVE_MS + (int64_t)(memory >> 20) * SAVE_MS_PER_MIB;
}

/* 0, or it is more than a machine can have. */
static int within_bounds(const struct saving *s, uint64_t total, struct cove_error *err)
{
	if (total > s->max)
		return fail(err, COVE_EIO, EFBIG,
			    "save: QEMU writes more than the machine has");
	if (now_ms() > s->until)
		return fail(err, COVE_ETIMEDOUT, 0, "save: QEMU does not end");
	return 0;
}

static int make_pipe(struct saving *s, struct cove_error *err)
{
	unlinkat(s->run, SAVE_PIPE, 0);
	unlinkat(s->run, SAVE_TABLES, 0);
	if (mkfifoat(s->run, SAVE_PIPE, 0600) == 0)
		s->pipe = openat(s->run, SAVE_PIPE,
				 O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	return s->pipe < 0 ? fail(err, COVE_EIO, errno, "save: the run directory") : 0;
}

/* What QEMU writes, until it closes its end. */
static int drain(struct saving *s, struct cove_error *err)
{
	uint8_t *buf = malloc(READ_SIZE);
	uint64_t total = 0;
	int r = buf ? 0 : fail_nomem(err);

	while (r == 0) {
		struct pollfd p = {.fd = s->pipe, .events = POLLIN};
		int n = poll(&p, 1, READ_MS);
		ssize_t got = n > 0 ? read(s->pipe, buf, READ_SIZE) : -1;
		int e;

		if (n == 0)
			r = fail(err, COVE_ETIMEDOUT, 0, "save: QEMU writes nothing");
		else if (got == 0)
			break;
		else if (got < 0 && errno != EINTR && errno != EAGAIN)
			r = fail(err, COVE_EIO, errno, "save: the memory");
		else if (got > 0 && (e = seal_write(&s->seal, buf, (size_t)got)) < 0)
			r = fail(err, COVE_EIO, -e, "save: the memory");
		else if (cut_tick(s->c) < 0)
			r = cut_release(s->c, err);
		total += got > 0 ? (uint64_t)got : 0;
		if (r == 0)
			r = within_bounds(s, total, err);
	}
	if (buf)
		sodium_memzero(buf, READ_SIZE);
	free(buf);
	return r;
}

/* The end of the pipe may also be the end of QEMU. */
static int wait_done(struct saving *s, struct cove_error *err)
{
	static const struct timespec nap = {.tv_nsec = 5000000};
	int64_t until = now_ms() + READ_MS;
	bool done = false;

	while (!done) {
		json_t *answer = NULL;

		if (session_keeper(s->c->keeper, "saved", NULL, &answer, err) < 0)
			return err->code;
		done = json_is_true(json_object_get(answer, "done"));
		json_decref(answer);
		if (!done && now_ms() > until)
			return fail(err, COVE_ETIMEDOUT, 0, "save: QEMU does not finish");
		if (!done)
			nanosleep(&nap, NULL);
	}
	return 0;
}

static int seal_all(struct saving *s, int file, const uint8_t key[SEAL_KEY],
		    struct cove_error *err)
{
	cleanup_fd int tables = -1;
	json_t *head = NULL;
	int r;

	if (session_keeper(s->c->keeper, "save", NULL, &head, err) < 0)
		return err->code;
	tables = openat(s->run, SAVE_TABLES, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	s->sealing = true;
	set_bounds(s, head);
	r = tables < 0 ? fail(err, COVE_EIO, errno, "save: the tables of files")
		       : state_begin(&s->seal, file, key, head, tables, err);
	json_decref(head);
	if (r < 0 || drain(s, err) < 0 || wait_done(s, err) < 0)
		return err->code;
	r = seal_end(&s->seal);
	return r < 0 ? fail(err, COVE_EIO, -r, "save: the memory") : 0;
}

int memory_save(struct cut *c, int dir, uint8_t key[SEAL_KEY], uint64_t *ret,
		struct cove_error *err)
{
	struct saving s = {.c = c, .run = -1, .pipe = -1};
	cleanup_fd int file =
		openat(dir, MEMORY_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	s.run = openat(c->store->run_fd, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (file < 0 || s.run < 0)
		r = fail(err, COVE_EIO, errno, "save: the memory");
	else
		r = sodium_init() < 0 ? fail(err, COVE_EIO, ENOSYS, "libsodium")
				      : make_pipe(&s, err);
	if (r == 0) {
		randombytes_buf(key, SEAL_KEY);
		r = seal_all(&s, file, key, err);
	}
	*ret = s.seal.total;
	if (s.sealing)
		seal_clear(&s.seal);
	if (s.run >= 0) {
		unlinkat(s.run, SAVE_PIPE, 0);
		unlinkat(s.run, SAVE_TABLES, 0);
	}
	close_fd(&s.run);
	close_fd(&s.pipe);
	return r < 0 ? wrap(err, "memory") : 0;
}

/* ---- reading -------------------------------------------------------------------- */

int64_t memory_size(int dir)
{
	struct stat st;

	return fstatat(dir, MEMORY_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			       !S_ISREG(st.st_mode)
		       ? -1
		       : (int64_t)st.st_size;
}

/* Was it never there, or is it gone? */
static int no_memory(int dir, const char *tag, struct cove_error *err)
{
	json_t *meta = snapshot_load_meta(dir, tag, err);
	bool had = json_object_get(meta, "memory") != NULL;

	json_decref(meta);
	if (!meta)
		return err->code;
	if (!had)
		return fail(err, COVE_ENOENT, 0,
			    "snapshot %s has no memory to go on from", tag);
	fail(err, COVE_EDAMAGED, 0, "the memory of snapshot %s is missing", tag);
	return hint(err, "its files can be restored: --files-only");
}

int memory_open(struct store *st, const char *name, const char *tag, int *ret_file,
		uint8_t key[SEAL_KEY], struct cove_error *err)
{
	cleanup_fd int record = spec_name_ok(name) ? record_open(st, name, err)
						   : fail(err, COVE_EINVAL, 0,
							  "'%.80s' is not a name", name);
	cleanup_fd int dir = record < 0 ? -1 : snapshot_open(record, name, tag, err);
	cleanup_fd int file = -1;

	if (dir < 0)
		return err->code;
	file = openat(dir, MEMORY_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (file < 0 && errno != ENOENT)
		return fail(err, COVE_EIO, errno, "the memory of snapshot %s", tag);
	if (file < 0)
		return no_memory(dir, tag, err);
	if (open_key(st, dir, key, err) < 0)
		return wrap(err, "snapshot %s", tag);
	*ret_file = take_fd(&file);
	return 0;
}

int memory_check(struct store *st, const char *name, const char *tag,
		 const struct spec *spec, struct cove_error *err)
{
	uint8_t key[SEAL_KEY];
	cleanup_fd int file = -1;
	json_t *head = NULL;
	int r = memory_open(st, name, tag, &file, key, err);

	if (r < 0)
		return r;
	r = state_verify(file, key, &head, err);
	sodium_memzero(key, sizeof(key));
	if (r == 0)
		r = box_check_state(spec, st, head, err);
	json_decref(head);
	return r < 0 ? wrap(err, "snapshot %s", tag) : 0;
}
