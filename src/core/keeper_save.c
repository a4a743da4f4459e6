/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_save - the memory of a machine: saving it, and going on from it.
 *
 * Saving, in steps that a client asks for one after the other:
 *  1. `freeze` with memory: the files' server is told to keep silent, the guest is asked
 *     to (QUIESCE). Frames for it wait from now on. When it answers (QUIET), nothing is
 *     on its way on any of its ports, and the machine is stopped.
 *  2. `save`: QEMU writes into the pipe RUN/NAME/save.memory, which the client reads and
 *     seals; what the files' server knows goes to RUN/NAME/save.tables.
 *  3. `saved`, until all was written. Then the client copies the files.
 *  4. `thaw`: the machine goes on, then the guest (HELLO, RESUME), then its files.
 * A client that goes away in between has the same effect as `thaw`.
 *
 * Going on: the place is started from the sealed file, and RESUME takes the place of
 * SETUP. The main session is ours again; of other commands we know whose connections
 * theirs are, and nothing else.
 */
#include "core/keeper_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "core/snapshot_memory.h"
#include "vm/state.h"

#include <fcntl.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <sys/stat.h>

#define STREAM_MIN 1

/* ---- silence -------------------------------------------------------------------- */

static const struct place_saver *saver(const struct keeper *k)
{
	return k->box.place.backend->saver;
}

bool save_is_quiet(const struct keeper *k)
{
	return k->saving.step == SAVE_QUIET;
}

static void say_resume(struct keeper *k);

/* The guest is quiet. A machine that does not stop at once is asked about again. */
static int stop_machine(struct keeper *k, struct cove_error *err)
{
	int r = keeper_hold_still(k, err);

	if (r < 0)
		say_resume(k);
	else
		k->saving.step = r ? SAVE_STOPPING : SAVE_QUIET;
	return r < 0 ? r : 0;
}

int save_ask(struct keeper *k, struct cove_error *err)
{
	struct saving *s = &k->saving;

	if (!saver(k)) {
		fail(err, COVE_EUNSUPPORTED, 0, "backend %s cannot save memory",
		     k->box.place.backend->name);
		return hint(err, "only a virtual machine can (--backend vm); without "
				 "memory, files are kept");
	}
	if (k->paused && s->step == SAVE_QUIET)
		return 0;
	if (k->paused && !k->quiet_until) {
		fail(err, COVE_ESTATE, 0, "the sandbox is paused");
		return hint(err, "'cove resume %s' first", k->box.name);
	}
	if (k->stopping)
		return fail(err, COVE_ESTATE, 0, "the sandbox is stopping");
	if (s->failed.code) {
		*err = s->failed;
		s->failed = (struct cove_error){0};
		return err->code;
	}
	if (s->step == SAVE_CANCELLED)
		return fail(err, COVE_ESTATE, 0, "an earlier save is being cancelled");
	if (s->step == SAVE_STOPPING)
		return stop_machine(k, err);
	if (k->still == STILL_GOING) /* of an earlier one */
		return 0;
	/* Frames that wait would come after QUIESCE: asked again in a moment. */
	if (s->step != SAVE_NOT || k->guest.queue.len)
		return 0;
	if (saver(k)->hold(&k->box.place, err) < 0) {
		saver(k)->release(&k->box.place);
		return err->code;
	}
	if (link_send(&k->guest.link, WIRE_QUIESCE, 0, 0, NULL, 0) < 0) {
		saver(k)->release(&k->box.place);
		return 0;
	}
	k->guest.held = true;
	s->step = SAVE_ASKED;
	return 0;
}

static void failed(struct keeper *k, uint32_t sys)
{
	k->guest.held = false;
	k->saving.step = SAVE_NOT;
	saver(k)->release(&k->box.place);
	fail(&k->saving.failed, COVE_EIO, (int)sys, "the guest does not become quiet");
}

/* The connection begins anew; the guest says HELLO first. */
static void say_resume(struct keeper *k)
{
	struct link *l = &k->guest.link;
	uint8_t payload[16];
	struct wire_out o;

	wire_out_init(&o, payload, sizeof(payload));
	wire_put_u32(&o, WIRE_A_FLAGS, 0);
	l->hello_seen = false;
	if (link_hello(l) < 0 || link_send(l, WIRE_RESUME, 0, 0, payload, o.len) < 0)
		k->ending = true;
	k->guest.held = false;
	k->saving.step = SAVE_NOT;
	saver(k)->release(&k->box.place);
}

int save_quiet(struct keeper *k, const struct wire_frame *f)
{
	struct saving *s = &k->saving;
	struct wire_attr a;
	uint32_t sys = EPROTO;
	size_t pos = 0;

	if (s->step != SAVE_ASKED && s->step != SAVE_CANCELLED)
		return -EPROTO;
	while (wire_next_attr(f->payload, f->len, &pos, &a) > 0)
		if (a.tag == WIRE_A_ERRNO)
			wire_attr_u32(&a, &sys);
	if (sys) {
		failed(k, sys);
	} else if (s->step == SAVE_CANCELLED) {
		say_resume(k);
	} else {
		stop_machine(k, &s->failed);
	}
	return 0;
}

void save_thawed(struct keeper *k)
{
	if (k->saving.step == SAVE_QUIET || k->saving.step == SAVE_STOPPING)
		say_resume(k);
	else if (k->saving.step == SAVE_ASKED)
		k->saving.step = SAVE_CANCELLED;
}

/* ---- what is kept of ourselves -------------------------------------------------- */

static json_t *describe_execs(const struct execs *x)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < x->n; i++) {
		const struct exec_info *e = &x->v[i];

		if (e->pid)
			json_array_append_new(list,
					      json_pack("{s:i, s:I, s:b, s:s, s:s}",
							"pid", (int)e->pid, "known",
							(json_int_t)e->known, "offline",
							e->offline, "agent", e->agent,
							"tool", e->tool));
	}
	return list;
}

static json_t *describe(const struct keeper *k, json_t *machine)
{
	const struct main_session *m = &k->main;
	json_t *main_json = m->running
				    ? json_pack("{s:i, s:i, s:b}", "stream", (int)m->slot,
						"pid", (int)m->pid, "pty", m->pty)
				    : json_null();

	return json_pack("{s:i, s:o, s:o, s:o}", "format", 1, "machine", machine, "main",
			 main_json, "execs", describe_execs(&k->box.execs));
}

/* ---- saving --------------------------------------------------------------------- */

static int open_run(const struct keeper *k, const char *file, int flags)
{
	char path[SPEC_NAME_MAX + 32];

	snprintf(path, sizeof(path), "%s/%s", k->box.name, file);
	return openat(k->store.run_fd, path, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* The client has opened the other end before it asks. */
static int open_pipe(const struct keeper *k)
{
	cleanup_fd int fd = open_run(k, SAVE_PIPE, O_WRONLY | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode) ||
	    fcntl(fd, F_SETFL, 0) < 0)
		return -1;
	return take_fd(&fd);
}

json_t *verb_save(struct keeper *k, json_t *args, struct cove_error *err)
{
	cleanup_fd int to = -1;
	cleanup_fd int tables = -1;
	json_t *machine = NULL;

	(void)args;
	if (k->saving.step != SAVE_QUIET || !k->freezer || k->freezer != k->asking) {
		fail(err, COVE_ESTATE, 0, "save: the sandbox does not hold still");
		return NULL;
	}
	to = open_pipe(k);
	tables = open_run(k, SAVE_TABLES, O_WRONLY | O_CREAT | O_EXCL);
	if (to < 0 || tables < 0) {
		fail(err, COVE_EIO, errno, "save: the run directory");
		return NULL;
	}
	if (saver(k)->start(&k->box.place, to, tables, &machine, err) < 0)
		return NULL;
	return describe(k, machine);
}

json_t *verb_saved(struct keeper *k, json_t *args, struct cove_error *err)
{
	int r;

	(void)args;
	if (k->saving.step != SAVE_QUIET || k->freezer != k->asking) {
		fail(err, COVE_ESTATE, 0, "the sandbox went on");
		return NULL;
	}
	r = saver(k)->poll(&k->box.place, err);
	return r < 0 ? NULL : json_pack("{s:b}", "done", r);
}

/* ---- going on ------------------------------------------------------------------- */

struct restoring {
	int file;
	uint8_t key[SEAL_KEY];
	struct place_state state;
	json_t *head;
};

static int number(const json_t *o, const char *key, int min, int max)
{
	json_int_t v = json_integer_value(json_object_get(o, key));

	return v < min || v > max ? 0 : (int)v;
}

uint32_t restore_stream(const struct keeper *k)
{
	const json_t *m =
		k->restoring ? json_object_get(k->restoring->head, "main") : NULL;

	return (uint32_t)number(m, "stream", STREAM_MIN, WIRE_STREAMS_MAX - 2);
}

static int open_state(struct keeper *k, struct restoring *r, const char *from,
		      struct cove_error *err)
{
	char name[2 * SPEC_NAME_MAX + 2];
	char *tag;
	struct seal s = {.fd = -1};
	int e;

	snprintf(name, sizeof(name), "%s", from);
	tag = strchr(name, '@');
	if (!tag)
		return fail(err, COVE_EINVAL, 0, "state: '%.80s' is no NAME@TAG", from);
	*tag++ = '\0';
	if (memory_open(&k->store, name, tag, &r->file, r->key, err) < 0)
		return err->code;
	e = state_open(&s, r->file, r->key, &r->head, -1, err);
	seal_clear(&s);
	return e;
}

static struct restoring *begin_restore(struct keeper *k, struct cove_error *err)
{
	struct restoring *r = calloc(1, sizeof(*r));

	if (!r) {
		fail_nomem(err);
		return NULL;
	}
	r->file = -1;
	r->state = (struct place_state){
		.file = -1, .key = r->key, .image = {-1, -1, -1}
        };
	k->restoring = r;
	k->box.state = &r->state;
	return r;
}

int restore_open(struct keeper *k, const char *from, struct cove_error *err)
{
	struct restoring *r = begin_restore(k, err);

	if (!r || open_state(k, r, from, err) < 0)
		return err->code;
	r->state.file = r->file;
	k->box.state_stream = restore_stream(k);
	return 0;
}

/* Whoever forks has opened the seal, for all of them. */
int restore_image(struct keeper *k, struct cove_error *err)
{
	struct restoring *r = begin_restore(k, err);
	cleanup_fd int head = KEEPER_IMAGE + IMAGE_HEAD;
	cleanup_buf struct buf text = BUF_INIT(STATE_HEAD_MAX);

	if (!r)
		return err->code;
	r->state.image =
		(struct place_image){KEEPER_IMAGE + IMAGE_RAM, KEEPER_IMAGE + IMAGE_STATE,
				     KEEPER_IMAGE + IMAGE_TABLES};
	if (lseek(head, 0, SEEK_SET) == 0 && read_fd(head, &text) == 0 && text.data)
		r->head = json_loadb(text.data, text.len, 0, NULL);
	if (!json_is_object(r->head))
		return fail(err, COVE_EDAMAGED, 0, "the image of the fork");
	r->state.head = r->head;
	k->box.state_stream = restore_stream(k);
	return 0;
}

static void adopt_exec(struct execs *x, const json_t *o)
{
	const char *agent = json_string_value(json_object_get(o, "agent"));
	const char *tool = json_string_value(json_object_get(o, "tool"));
	struct exec_info e = {
		.pid = (uint32_t)number(o, "pid", 1, INT32_MAX),
		.known = (uint64_t)json_integer_value(json_object_get(o, "known")),
		.offline = json_is_true(json_object_get(o, "offline")),
	};

	snprintf(e.agent, sizeof(e.agent), "%s", agent ? agent : "");
	snprintf(e.tool, sizeof(e.tool), "%s", tool ? tool : "");
	execs_adopt(x, &e);
}

void restore_adopt(struct keeper *k)
{
	const json_t *m, *o;
	size_t i;

	if (!k->restoring)
		return;
	json_array_foreach(json_object_get(k->restoring->head, "execs"), i, o)
	{
		adopt_exec(&k->box.execs, o);
		if (json_is_true(json_object_get(o, "offline")))
			box_need_who(&k->box, &(struct cove_error){0});
	}
	m = json_object_get(k->restoring->head, "main");
	if (restore_stream(k))
		main_adopt(k, restore_stream(k), (uint32_t)number(m, "pid", 1, INT32_MAX),
			   json_is_true(json_object_get(m, "pty")));
}

/* The machine has it all: what could open the file must not outlive that, or a shred
 * would be none. */
void restore_used(struct keeper *k)
{
	struct restoring *r = k->restoring;

	if (!r)
		return;
	close_fd(&r->file);
	sodium_memzero(r->key, sizeof(r->key));
	r->state.file = -1;
	close_fd(&r->state.image.ram);
	close_fd(&r->state.image.state);
	close_fd(&r->state.image.tables);
}

void restore_clear(struct keeper *k)
{
	struct restoring *r = k->restoring;

	if (!r)
		return;
	restore_used(k);
	json_decref(r->head);
	free(take_ptr(k->restoring));
}
