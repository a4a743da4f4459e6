/* SPDX-License-Identifier: Apache-2.0 */
/* fork - several sandboxes that go on from the memory of one. */
#include "api/handle.h"
#include "api/state.h"

#include "base/util.h"
#include "core/clone.h"
#include "core/snapshot_memory.h"

#include <sodium/randombytes.h>
#include <stdio.h>

#define FORKS_MAX 256

static int one(struct store *st, const char *name, const char *tag, const char *new_name,
	       struct cove_error *err)
{
	struct cut c;
	int r = cut_open_snapshot(&c, st, name, tag, err);

	c.memory = true;
	if (r == 0)
		r = clone_make(&c, new_name, NULL, err);
	cut_clear(&c);
	if (r == 0) {
		r = start_from_memory(st, new_name, name, tag, err);
		if (r < 0)
			cove_remove(new_name, COVE_REMOVE_FORCE, NULL);
	}
	return r < 0 ? wrap(err, "%s", new_name) : 0;
}

/* All of them, or none. */
static int all(struct store *st, const char *name, const char *tag,
	       const char *const *new_names, size_t n, struct cove_error *err)
{
	size_t made = 0;
	int r = 0;

	for (; r == 0 && made < n; made += r == 0)
		r = one(st, name, tag, new_names[made], err);
	while (r < 0 && made-- > 0)
		cove_remove(new_names[made], COVE_REMOVE_FORCE, NULL);
	return r;
}

static int check(struct store *st, const char *name, const char *tag,
		 const char *const *new_names, size_t n, struct cove_error *err)
{
	struct cut c;
	int r = cut_open_snapshot(&c, st, name, tag, err);

	if (r == 0)
		r = memory_check(st, name, tag, &c.spec, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct spec spec;

		r = clone_spec(st, &c.spec, new_names[i], NULL, &spec, err);
		if (r == 0)
			spec_clear(&spec);
	}
	cut_clear(&c);
	return r;
}

static int from_snapshot(const char *name, const char *tag, const char *const *new_names,
			 size_t n, struct cove_error *err)
{
	struct store st;
	int r;

	if (handle_store(&st, err) < 0)
		return err->code;
	r = check(&st, name, tag, new_names, n, err);
	if (r == 0)
		r = all(&st, name, tag, new_names, n, err);
	store_close(&st);
	return r;
}

/* A running one is saved once, for as long as it takes. */
static int from_running(const char *name, const char *const *new_names, size_t n,
			struct cove_error *err)
{
	struct cove_snapshot_options o = {.size = sizeof(o),
					  .flags = COVE_SNAPSHOT_MEMORY,
					  .description = "for cove fork"};
	struct cove_error ignored = {0};
	char tag[24];
	int r;

	snprintf(tag, sizeof(tag), "fork-%08x", randombytes_random());
	r = cove_snapshot_with(name, tag, &o, err);
	if (r < 0)
		return r;
	r = from_snapshot(name, tag, new_names, n, err);
	cove_snapshot_shred(name, tag, &ignored);
	return r;
}

int cove_fork(const char *name, const char *tag, const char *const *new_names, size_t n,
	      struct cove_error *err)
{
	err = ERR(err);
	if (n == 0 || n > FORKS_MAX)
		return fail(err, COVE_EINVAL, 0, "fork: 1 to %d at once", FORKS_MAX);
	return tag ? from_snapshot(name, tag, new_names, n, err)
		   : from_running(name, new_names, n, err);
}
