/* SPDX-License-Identifier: Apache-2.0 */
/* start - beginning and end of a handle. */
#include "api/handle.h"

#include "base/util.h"
#include "core/audit.h"
#include "core/audit_notes.h"
#include "core/net.h"
#include "core/provision.h"
#include "core/secret.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

/* A keeper listens and answers once its guest is up, which may have to boot first. */
#define KEEPER_MS 150000

static int64_t check_disk(void *arg)
{
	struct cove *s = arg;
	int64_t next = 0;

	if (box_check_disk(&s->box, now_ms(), &next))
		session_set_bye(s->session, DISK_REASON, NULL);
	return next;
}

static void started(void *arg, const struct stream *st)
{
	if (!st->exited)
		box_started(arg, st->id, st->pid, st->since);
}

/* Which process each command began with. */
static void note_started(void *arg)
{
	struct cove *s = arg;

	session_read(s->session);
	session_each(s->session, started, &s->box);
}

static void net_turn_inproc(void *arg)
{
	struct cove *s = arg;

	box_net_turn(&s->box);
	if (s->box.stopped_for[0])
		session_set_bye(s->session, s->box.stopped_for, NULL);
}

static void guest_lost(void *arg, bool silent)
{
	struct cove *s = arg;
	struct cove_error why = {0};

	box_explain(&s->box,
		    !session_link(s->session)->hello_seen ? PLACE_NOT_UP
		    : silent                              ? PLACE_SILENT
							  : PLACE_ENDED,
		    &why);
	session_set_bye(s->session, why.msg, why.hint);
}

static int provision(struct store *st, const struct spec *spec, const char *name,
		     const struct cove_start_options *o, struct cove_error *err)
{
	struct provision_hooks h = {o->progress, o->output, o->arg,
				    o->flags & COVE_START_DEGRADED};

	return provision_ensure(st, spec, name, &h, err);
}

static int start_inproc(struct cove *s, const struct cove_spec *spec,
			const struct cove_start_options *o, struct cove_error *err)
{
	struct spec copy;

	if (!spec)
		return fail(err, COVE_EINVAL, 0, "a sandbox without a name needs a spec");
	if (spec_copy(&copy, &spec->spec, err) < 0)
		return err->code;
	s->inproc = true;
	s->oneshot = o->flags & COVE_START_ONESHOT;
	if (box_resolve_spec(&copy, &s->store, err) < 0 ||
	    provision(&s->store, &copy, NULL, o, err) < 0 ||
	    start_secrets(&s->box.secrets, &s->store, NULL, &copy, o, err) < 0 ||
	    box_start(&s->box, &s->store, NULL, &copy, true,
		      o->flags & COVE_START_DEGRADED, err) < 0) {
		spec_clear(&copy);
		s->inproc = false;
		return err->code;
	}
	spec_clear(&copy);
	snprintf(s->name, sizeof(s->name), "%s", s->box.name);
	s->session = session_new(&s->box.place.link, err);
	if (!s->session)
		return err->code;
	if (session_set_guest(s->session, &(struct session_watch){
						  .alarm = s->box.place.alarm,
						  .silence_ms = s->box.place.silence_ms,
						  .up_ms = s->box.place.up_ms,
						  .lost = guest_lost,
						  .arg = s}) < 0)
		return fail(err, COVE_EIO, errno, "events");
	if (json_array_size(s->box.spec.ports) > 0) {
		s->ports = ports_new(s->session, &s->store, s->box.name, err);
		if (!s->ports || ports_add_all(s->ports, s->box.spec.ports, err) < 0)
			return err->code;
	}
	session_set_tick(s->session, s->box.disk.next_ms, check_disk, s);
	net_set_audit(&s->box, notes_net, &s->box);
	s->box.owner = s;
	s->box.owner_reads = note_started;
	if (box_setup(&s->box, s->session, err) < 0)
		return err->code;
	if (box_net_fd(&s->box) >= 0 &&
	    session_set_watch(s->session, box_net_fd(&s->box), net_turn_inproc, s) < 0)
		return fail(err, COVE_EIO, errno, "events");
	return 0;
}

static int start_keeper(struct cove *s, const struct cove_start_options *o,
			struct cove_error *err)
{
	struct secrets *secrets = NULL;
	int r = box_prepare(&s->spec, &s->store, err);

	if (r == 0)
		r = start_secrets(&secrets, &s->store, s->name, &s->spec, o, err);
	if (r == 0)
		r = spawn_keeper(&s->store, s->name, o->flags & COVE_START_DEGRADED, NULL,
				 secrets, err);
	secrets_free(secrets);
	return r;
}

/* Connects; starts the keeper if nobody is there. Others may do the same at this moment:
 * then theirs is as good, once it listens. */
static int join_keeper(struct cove *s, const struct cove_start_options *o, bool may_start,
		       struct cove_error *err)
{
	int64_t until = now_ms() + KEEPER_MS;
	cleanup_fd int fd = -1;

	while (connect_keeper(&s->store, s->name, &fd, err) < 0) {
		struct timespec pause = {.tv_nsec = 2000000};

		if (!may_start || err->code != COVE_ESTATE || now_ms() > until)
			return err->code;
		if (store_is_running(&s->store, s->name)) {
			nanosleep(&pause, NULL); /* starting, or just ending */
			continue;
		}
		store_sweep(&s->store); /* what a killed keeper of this name left, too */
		if (start_keeper(s, o, err) < 0 && err->code != COVE_ESTATE)
			return err->code;
	}
	s->session = session_new(&fd, err);
	if (!s->session)
		return err->code;
	session_wait_for(s->session, KEEPER_MS);
	return 0;
}

/* A sandbox whose log cannot be written is none. */
static int note_create(struct store *st, const char *name, const struct spec *spec,
		       struct cove_error *err)
{
	struct cove_error ignored = {0};
	int r = audit_log(
		st, name, "create",
		json_pack("{s:i, s:o}", "uid", (int)getuid(), "spec", audit_spec(spec)),
		err);

	if (r < 0)
		store_remove(st, name, &ignored);
	return r;
}

/* Provisioned first: if that fails, there is no sandbox. */
static int create_record(struct store *st, const char *name, const struct cove_spec *spec,
			 const struct cove_start_options *o, struct cove_error *err)
{
	struct spec copy;
	int r;

	if (spec_copy(&copy, &spec->spec, err) < 0)
		return err->code;
	r = box_resolve_spec(&copy, st, err);
	if (r == 0 && !store_exists(st, name))
		r = provision(st, &copy, NULL, o, err);
	if (r == 0)
		r = store_create(st, name, &copy, err);
	if (r == 0)
		r = note_create(st, name, &copy, err);
	spec_clear(&copy);
	return r;
}

static int start_named(struct cove *s, const char *name, const struct cove_spec *spec,
		       const struct cove_start_options *o, bool may_start,
		       struct cove_error *err)
{
	if (strlen(name) > SPEC_NAME_MAX || !spec_name_ok(name))
		return fail(err, COVE_EINVAL, 0, "'%.80s' is not a name", name);
	snprintf(s->name, sizeof(s->name), "%s", name);
	if (spec && !store_exists(&s->store, name) &&
	    create_record(&s->store, name, spec, o, err) < 0 && err->code != COVE_EEXIST)
		return err->code;
	if (store_load(&s->store, name, &s->spec, err) < 0)
		return err->code;
	if (may_start && !store_is_running(&s->store, name) &&
	    provision(&s->store, &s->spec, name, o, err) < 0)
		return err->code;
	return join_keeper(s, o, may_start, err);
}

static int open_handle(struct cove **ret, const char *name, const struct cove_spec *spec,
		       const struct cove_start_options *opt, bool may_start,
		       struct cove_error *err)
{
	struct cove_start_options o = {.size = sizeof(o)};
	struct cove *s;
	int r;

	if (opt && options_import(&o, sizeof(o), 8, opt, "start options", err) < 0)
		return err->code;
	if (o.flags & ~(uint32_t)(COVE_START_DEGRADED | COVE_START_ONESHOT))
		return fail(err, COVE_EINVAL, 0, "start: unknown flag");
	s = calloc(1, sizeof(*s));
	if (!s)
		return fail_nomem(err);
	s->store = (struct store){.boxes = -1, .run_fd = -1};
	spec_init(&s->spec);
	r = store_open(&s->store, err);
	if (r == 0)
		r = name ? start_named(s, name, spec, &o, may_start, err)
			 : start_inproc(s, spec, &o, err);
	if (r < 0) {
		cove_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

int cove_start(struct cove **ret, const char *name, const struct cove_spec *spec,
	       const struct cove_start_options *o, struct cove_error *err)
{
	return open_handle(ret, name, spec, o, true, ERR(err));
}

int cove_connect(struct cove **ret, const char *name, struct cove_error *err)
{
	if (!name)
		return fail(ERR(err), COVE_EINVAL, 0, "no name");
	return open_handle(ret, name, NULL, NULL, false, ERR(err));
}

int cove_create_with(const char *name, const struct cove_spec *spec,
		     const struct cove_start_options *opt, struct cove_error *err)
{
	struct cove_start_options o = {.size = sizeof(o)};
	struct store st;
	int r;

	err = ERR(err);
	if (!name || !spec)
		return fail(err, COVE_EINVAL, 0, "a name and a spec are needed");
	if (opt && options_import(&o, sizeof(o), 8, opt, "create options", err) < 0)
		return err->code;
	if (o.flags & ~(uint32_t)COVE_START_DEGRADED)
		return fail(err, COVE_EINVAL, 0, "create: unknown flag");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = create_record(&st, name, spec, &o, err);
	store_close(&st);
	return r;
}

int cove_create(const char *name, const struct cove_spec *spec, struct cove_error *err)
{
	return cove_create_with(name, spec, NULL, err);
}

int cove_finish(struct cove *s, uint64_t *ret_changes, struct cove_error *err)
{
	int r = 0;

	err = ERR(err);
	if (s->inproc && !s->finished) {
		s->finished = true;
		ports_free(take_ptr(s->ports));
		/* Closing the link ends the guest, and with it everything inside. */
		session_free(take_ptr(s->session));
		r = box_end(&s->box, &s->changes, err);
	}
	if (ret_changes && r == 0)
		*ret_changes = s->changes;
	return r;
}

/* The process that cleans up behind a caller who is gone: it has the caller's memory for
 * itself, and a copy of its descriptors. */
static int janitor(void *arg)
{
	struct cove *s = arg;
	struct place *p = &s->box.place;
	struct pollfd ended = {.fd = p->pidfd, .events = POLLIN};
	struct cove_error err = {0};

	/* The caller's terminal and pipes must not wait for us. */
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	session_free(take_ptr(s->session));
	p->backend->kill(p);
	while (poll(&ended, 1, -1) < 0 && errno == EINTR)
		;
	/* Something inside wrote after its main process had ended: it is kept after all.
	 */
	if (store_count_changes(&s->store, s->name, 1) > 0)
		box_note_spec(&s->box, &err);
	cove_finish(s, NULL, NULL);
	_exit(0);
}

int cove_leave(struct cove *s, uint64_t *ret_changes, struct cove_error *err)
{
	enum { STACK = 256 * 1024 };
	char *stack;
	pid_t pid;

	err = ERR(err);
	/* Guarded paths are looked at now, so that the caller can tell; and the next one
	 * may want the same volume at once. */
	if (!s->inproc || s->finished || !s->oneshot || s->box.guards ||
	    s->box.volumes.n || store_count_changes(&s->store, s->name, 1) > 0)
		return cove_finish(s, ret_changes, err);
	ports_free(take_ptr(s->ports)); /* free for the next one when we are gone */
	box_forget(&s->box); /* whoever asks after we are gone must not see it */
	stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	pid = stack == MAP_FAILED ? -1 : clone(janitor, stack + STACK, CLONE_VM, s);
	if (pid < 0)
		return cove_finish(s, ret_changes, err);
	if (ret_changes)
		*ret_changes = 0;
	return 1;
}

void cove_free(struct cove *s)
{
	if (!s)
		return;
	if (s->inproc)
		cove_finish(s, NULL, NULL);
	session_free(s->session);
	handle_ask_clear(s);
	spec_clear(&s->spec);
	store_close(&s->store);
	free(s);
}

const char *cove_name(const struct cove *s)
{
	return s->name;
}

int cove_fd(struct cove *s)
{
	return s->session ? session_fd(s->session) : -1;
}

int cove_dispatch(struct cove *s, struct cove_error *err)
{
	int r;

	err = ERR(err);
	if (!s->session)
		return fail(err, COVE_EGONE, 0, "the sandbox has ended");
	r = session_turn(s->session, 0, err);
	handle_deliver(s);
	return r;
}
