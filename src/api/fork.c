/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork - several sandboxes that go on from the memory of one.
 *
 * The seal is opened once, into files in memory that all of them map
 * (backend/vm_share.c). A running sandbox is saved first, sealed with a key that only we
 * have: if we are killed, what we leave can be read by nobody, and the next snapshot
 * removes it.
 */
#include "api/handle.h"
#include "api/state.h"

#include "base/io.h"
#include "base/util.h"
#include "core/box.h"
#include "core/clone.h"
#include "core/keeper.h"
#include "core/snapshot_impl.h"
#include "core/snapshot_memory.h"

#include <fcntl.h>
#include <sodium/randombytes.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <sys/mman.h>

#define FORKS_MAX 256

/* ---- the image ------------------------------------------------------------------ */

static int put_head(int *ret_fd, const json_t *head)
{
	char *text = json_dumps(head, JSON_COMPACT);
	int r = text ? 0 : -ENOMEM;

	*ret_fd = memfd_create("cove-fork-head", MFD_CLOEXEC);
	if (r == 0)
		r = *ret_fd < 0 ? -errno : write_all(*ret_fd, text, strlen(text));
	free(text);
	return r;
}

/* Not where a keeper's own descriptors go. */
static int raise_fds(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int high = fcntl(fds[i], F_DUPFD_CLOEXEC, KEEPER_FDS);

		if (high < 0)
			return -errno;
		close(fds[i]);
		fds[i] = high;
	}
	return 0;
}

static int make_image(struct store *st, const struct spec *spec, int file,
		      const uint8_t *key, struct keeper_from *ret, struct cove_error *err)
{
	const struct place_state sealed = {.file = file, .key = key};
	struct place_image image = {-1, -1, -1};
	json_t *head = NULL;
	int r = box_share(spec, st, &sealed, &image, &head, err), e = 0;

	ret->image[IMAGE_RAM] = image.ram;
	ret->image[IMAGE_STATE] = image.state;
	ret->image[IMAGE_TABLES] = image.tables;
	if (r == 0)
		e = put_head(&ret->image[IMAGE_HEAD], head);
	json_decref(head);
	if (r == 0 && e == 0)
		e = raise_fds(ret->image, IMAGE_FDS);
	return r < 0 ? r : e < 0 ? fail(err, COVE_EIO, -e, "memory for forks") : 0;
}

/* ---- forks ---------------------------------------------------------------------- */

struct forks {
	const char *name, *tag;       /* of what they go on from */
	const char *const *new_names; /* n of them */
	size_t n;
	const struct memory_keep *keep; /* NULL: the key is in a file */
};

static int one(struct store *st, const struct forks *f, const char *new_name,
	       const struct keeper_from *from, struct cove_error *err)
{
	struct cut c;
	int r = cut_open_snapshot(&c, st, f->name, f->tag, err);

	c.memory = true;
	if (r == 0)
		r = clone_make(&c, new_name, NULL, err);
	cut_clear(&c);
	if (r == 0) {
		r = start_from(st, new_name, from, err);
		if (r < 0)
			cove_remove(new_name, COVE_REMOVE_FORCE, NULL);
	}
	return r < 0 ? wrap(err, "%s", new_name) : 0;
}

/* All of them, or none. */
static int all(struct store *st, const struct forks *f, const struct keeper_from *from,
	       struct cove_error *err)
{
	size_t made = 0;
	int r = 0;

	for (; r == 0 && made < f->n; made += r == 0)
		r = one(st, f, f->new_names[made], from, err);
	while (r < 0 && made-- > 0)
		cove_remove(f->new_names[made], COVE_REMOVE_FORCE, NULL);
	return r;
}

static int check_names(struct store *st, const struct cut *c, const struct forks *f,
		       struct cove_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->n; i++) {
		struct spec spec;

		r = clone_spec(st, &c->spec, f->new_names[i], NULL, &spec, err);
		if (r == 0)
			spec_clear(&spec);
	}
	return r;
}

/* Everything that can be wrong with the memory is found here. */
static int open_image(struct store *st, const struct forks *f, struct keeper_from *ret,
		      struct cove_error *err)
{
	uint8_t key[SEAL_KEY];
	cleanup_fd int file = -1;
	struct cut c;
	int r = cut_open_snapshot(&c, st, f->name, f->tag, err);

	if (r == 0)
		r = check_names(st, &c, f, err);
	if (r == 0 && f->keep) {
		memcpy(key, f->keep->key, sizeof(key));
		file = openat(f->keep->dir, MEMORY_FILE, O_RDONLY | O_CLOEXEC);
		r = file < 0 ? fail(err, COVE_EIO, errno, "the saved memory") : 0;
	} else if (r == 0) {
		r = memory_open(st, f->name, f->tag, &file, key, err);
	}
	if (r == 0) {
		r = make_image(st, &c.spec, file, key, ret, err);
		if (r < 0)
			wrap(err, "snapshot %s", f->tag);
	}
	sodium_memzero(key, sizeof(key));
	cut_clear(&c);
	return r;
}

static int make(struct store *st, const struct forks *f, struct cove_error *err)
{
	struct keeper_from from = {
		.image = {-1, -1, -1, -1}
        };
	int r = open_image(st, f, &from, err);

	if (r == 0)
		r = all(st, f, &from, err);
	for (size_t i = 0; i < IMAGE_FDS; i++)
		close_fd(&from.image[i]);
	return r;
}

/* A running one is saved once, for as long as it takes. */
static int from_running(struct store *st, const struct forks *f, struct cove_error *err)
{
	struct forks saved = *f;
	struct cove_error ignored = {0};
	struct memory_keep keep;
	char tag[24];
	int r;

	snprintf(tag, sizeof(tag), "fork-%08x", randombytes_random());
	r = snapshot_for_forks(st, f->name, tag, &keep, err);
	if (r == 0) {
		saved.tag = tag;
		saved.keep = &keep;
		r = make(st, &saved, err);
		snapshot_remove(st, f->name, tag, true, &ignored);
	}
	sodium_memzero(&keep.key, sizeof(keep.key));
	close_fd(&keep.dir);
	return r;
}

int cove_fork(const char *name, const char *tag, const char *const *new_names, size_t n,
	      struct cove_error *err)
{
	const struct forks f = {.name = name, .tag = tag, .new_names = new_names, .n = n};
	struct store st;
	int r;

	err = ERR(err);
	if (n == 0 || n > FORKS_MAX)
		return fail(err, COVE_EINVAL, 0, "fork: 1 to %d at once", FORKS_MAX);
	if (handle_store(&st, err) < 0)
		return err->code;
	r = tag ? make(&st, &f, err) : from_running(&st, &f, err);
	store_close(&st);
	return r;
}
