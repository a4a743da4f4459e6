/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_share - saved memory as an image that many machines go on from.
 *
 * Theory of operation. The sealed file is QEMU's stream, which only QEMU can read. So one
 * QEMU, which never runs the guest, loads it into memory that is a file; then it writes
 * down the state of the devices alone. From there on it is like a template: each fork
 * maps the memory privately, and what none of them has written exists once.
 *
 * The file is a memfd: nothing of it is on a disk in the clear, it has no name that could
 * be left behind, and it is gone with the last machine that maps it. Forks get a
 * descriptor that cannot write.
 */
#include "backend/vm_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define LOAD_MS 120000 /* for all of its memory to come in */
#define SAVE_MS 60000
#define PAGE 4096u
#define BLOCK (256u * PAGE)

/* ---- memory that nobody needs --------------------------------------------------- */

static bool is_zero(const uint8_t *p, size_t n)
{
	return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

static void drop(int fd, uint64_t from, uint64_t to)
{
	if (to > from)
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
			  (off_t)(to - from));
}

/* QEMU looks at every page that it is told is empty, and in a shared file a page that was
 * looked at is there. Best effort: what stays costs memory and nothing else. */
static void drop_empty(int fd, uint64_t size)
{
	uint8_t *block = malloc(BLOCK);
	uint64_t from = 0, at = 0;
	bool empty = false;

	while (block && at < size) {
		ssize_t n = pread(fd, block, BLOCK, (off_t)at);

		if (n <= 0 || n % PAGE)
			break;
		for (ssize_t i = 0; i < n; i += PAGE, at += PAGE) {
			bool is = is_zero(block + i, PAGE);

			if (is && !empty)
				from = at;
			if (!is && empty)
				drop(fd, from, at);
			empty = is;
		}
	}
	if (empty)
		drop(fd, from, at);
	free(block);
}

/* ---- making one ----------------------------------------------------------------- */

static int make_files(struct place_image *i, uint64_t memory, struct cove_error *err)
{
	i->ram = memfd_create("cove-fork-memory", MFD_CLOEXEC);
	i->state = memfd_create("cove-fork-state", MFD_CLOEXEC);
	i->tables = memfd_create("cove-fork-tables", MFD_CLOEXEC);
	if (i->ram < 0 || i->state < 0 || i->tables < 0 ||
	    ftruncate(i->ram, (off_t)memory) < 0)
		return fail(err, COVE_EIO, errno, "memory for forks");
	return 0;
}

/* The same file, without the right to write to it. */
static int read_only(int *fd, struct cove_error *err)
{
	char path[40];
	int other;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
	other = open(path, O_RDONLY | O_CLOEXEC);
	if (other < 0)
		return fail(err, COVE_EIO, errno, "memory for forks");
	close(*fd);
	*fd = other;
	return 0;
}

static int move(struct qmp *q, struct seal *s, int state, struct cove_error *err)
{
	struct migrate m;

	if (vm_load(q, s, LOAD_MS, err) < 0 ||
	    migrate_begin(&m, q, MIGRATE_OUT, state, true, err) < 0)
		return err->code;
	return migrate_wait(&m, q, SAVE_MS, err);
}

/* A machine that never runs. */
static int convert(struct vm_host *h, const struct place_config *c, struct seal *s,
		   const struct place_image *i, struct cove_error *err)
{
	struct vm_root root = {.host = h};
	struct qemu_machine m = vm_machine(h);
	struct place p = place_none();
	char id[CGROUP_ID_MAX + 1] = "";
	const struct place_config own = vm_cache_config(c, id);
	struct vm_channels ch;
	struct qmp q;
	int r;

	m.incoming = true;
	snprintf(id, sizeof(id), "fork-%d", (int)getpid());
	vm_channels_init(&ch);
	ch.ram = fcntl(i->ram, F_DUPFD_CLOEXEC, 0);
	r = vm_launch_cached(&p, &own, &root, &m, &ch, err);
	qmp_init(&q, take_fd(&ch.qmp[0]));
	if (r == 0)
		r = move(&q, s, i->state, err);
	proc_release(&p);
	qmp_clear(&q);
	vm_channels_clear(&ch);
	return r;
}

int vm_share(const struct place_config *c, const struct place_state *from,
	     struct place_image *ret, json_t **ret_head, struct cove_error *err)
{
	struct seal s = {.fd = -1};
	json_t *head = NULL;
	struct vm_host h;
	int r = vm_gather(&h, c, err);

	if (r == 0)
		r = make_files(ret, h.memory, err);
	if (r == 0)
		r = state_open(&s, from->file, from->key, &head, ret->tables, err);
	if (r == 0)
		r = vm_adopt(&h, json_object_get(head, "machine"), err);
	if (r == 0)
		r = convert(&h, c, &s, ret, err);
	seal_clear(&s);
	if (r == 0)
		drop_empty(ret->ram, h.memory);
	if (r == 0 && (read_only(&ret->ram, err) < 0 || read_only(&ret->state, err) < 0 ||
		       read_only(&ret->tables, err) < 0))
		r = err->code;
	if (r < 0) {
		json_decref(head);
		return r;
	}
	*ret_head = head;
	return 0;
}

/* ---- going on from one ---------------------------------------------------------- */

int vm_start_shared(struct place *p, const struct place_config *c, struct vm_channels *ch,
		    struct cove_error *err)
{
	const struct place_image *i = &c->state->image;
	struct vm *vm = p->vm;
	struct vm_root root = {.host = &vm->host};
	cleanup_fd int state = fcntl(i->state, F_DUPFD_CLOEXEC, 0);
	struct qemu_machine m;
	struct migrate load;

	/* Other forks read the same file: each from the front. */
	if (state < 0)
		return fail(err, COVE_EIO, errno, "fork");
	if (read_only(&state, err) < 0)
		return err->code;
	if (vm_adopt(&vm->host, json_object_get(c->state->head, "machine"), err) < 0)
		return err->code;
	if (vm_copy_tables(i->tables, vm->fs_tables, err) < 0)
		return err->code;
	if (lseek(vm->fs_tables, 0, SEEK_SET) < 0)
		return fail(err, COVE_EIO, errno, "the tables of cove-fs");
	vm->fs_how = "restored";
	ch->ram = fcntl(i->ram, F_DUPFD_CLOEXEC, 0);
	vm->image = fcntl(i->ram, F_DUPFD_CLOEXEC, 0);
	m = vm_machine(&vm->host);
	m.incoming = true;
	if (vm_launch_all(p, c, &root, &m, ch, err) < 0 ||
	    migrate_begin(&load, &vm->qmp, MIGRATE_IN, state, true, err) < 0 ||
	    migrate_wait(&load, &vm->qmp, LOAD_MS, err) < 0)
		return err->code;
	return qmp_call(&vm->qmp, "cont", NULL, NULL, err);
}
