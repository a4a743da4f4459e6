/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_keeper - what the keeper writes to the audit log: start, exec and its end,
 * attach, changes of the spec, kill, stop.
 *
 * A command that cannot be recorded is refused. Its end is written before the client
 * hears of it, with what it wrote, as long as that is found in a few milliseconds; where
 * there is more to look through a child does, and the record follows when it is done. The
 * ledgers of the workspace are brought up to date by a child as well: they may have to
 * wait for a lock.
 */
#include "core/keeper_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/workspace.h"
#include "core/writes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define JOBS 4
#define JOB_SECONDS 10 /* then it is killed */
#define CAPTURE_EVERY_MS 1000
#define QUICK_SKIPS 64 /* commands that go straight to a child after one that had to */

static const struct writes_budget quick = {2000, 5};
static const struct writes_budget full = {WRITES_ENTRIES_MAX, WRITES_MS_MAX};

/* A command that runs. */
struct running {
	struct running *next;
	uint32_t slot; /* 0: not sent to the guest yet */
	uint64_t id;   /* number of its record */
	int64_t since_ms, since_clock;
	uint64_t cpu_ns;
	bool alone; /* no other ran at any time: the cpu time is its own */
};

/* A child at work. */
struct job {
	pid_t pid; /* 0: free */
	int fd;
	json_t *end; /* the record that waits for it; NULL: the ledgers' */
	struct buf out;
};

struct keeper_audit {
	struct audit *log;
	struct running *running;
	struct job jobs[JOBS];
	int64_t capture_at; /* ms; not before */
	bool capture_due;
	unsigned skip_quick;
};

static void append(struct keeper *k, const char *event, json_t *fields)
{
	struct cove_error ignored = {0};

	/* Nobody to refuse anything to: what happened has happened. The gap shows, as an
	 * exec without its end. */
	audit_append(k->audit->log, event, fields, 0, 0, NULL, &ignored);
}

static void put_client(json_t *j, const struct client *c)
{
	struct ucred who;
	socklen_t n = sizeof(who);

	if (!c || getsockopt(c->conn.fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0)
		return;
	json_object_set_new(j, "uid", json_integer(who.uid));
	json_object_set_new(j, "pid", json_integer(who.pid));
}

/* ---- children -------------------------------------------------------------------- */

/* Nothing of the keeper's but what it needs: the lock and the clients' connections must
 * not live on in here. */
static void job_main(struct keeper *k, int out, const struct running *r)
{
	struct store st;
	struct cove_error err = {0};
	json_t *j;
	char *text;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(JOB_SECONDS);
	if ((out != 3 && dup2(out, 3) < 0) || syscall(SYS_close_range, 4u, ~0u, 0) < 0)
		_exit(1);
	if (!r) {
		if (store_open(&st, &err) == 0) {
			workspace_capture(&st, k->box.name, &k->box.spec);
			/* The overlay is volatile and syncs nothing by itself: what an
			 * exec wrote is on disk soon after its end, whatever happens to
			 * the host. */
			syncfs(st.boxes);
		}
		_exit(0);
	}
	j = writes_scan(k->box.mounts, k->box.n_mounts, r->since_clock, &full, NULL);
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	_exit(text ? write_all(3, text, strlen(text)) < 0 : 1);
}

/* end: stolen on success. r: NULL for the ledgers. */
static int job_start(struct keeper *k, const struct running *r, json_t *end)
{
	struct job *job = NULL;
	size_t index = 0;
	int p[2];

	for (; index < JOBS && !job; index++)
		if (!k->audit->jobs[index].pid)
			job = &k->audit->jobs[index];
	if (!job || pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		return -EAGAIN;
	cleanup_fd int in = p[0];
	cleanup_fd int out = p[1];
	struct epoll_event e = {.events = EPOLLIN,
				.data.u64 = ((uint64_t)W_AUDIT << 32) | (index - 1)};
	/* The result fits into the pipe's buffer only if that is not full: block then. */
	if (fcntl(out, F_SETFL, 0) < 0 || epoll_ctl(k->epfd, EPOLL_CTL_ADD, in, &e) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid == 0)
		job_main(k, out, r);
	if (pid < 0) {
		int sys = errno;

		epoll_ctl(k->epfd, EPOLL_CTL_DEL, in, NULL);
		return -sys;
	}
	*job = (struct job){.pid = pid, .fd = take_fd(&in), .end = end};
	buf_init(&job->out, AUDIT_LINE_MAX);
	return 0;
}

static void job_done(struct keeper *k, struct job *job)
{
	epoll_ctl(k->epfd, EPOLL_CTL_DEL, job->fd, NULL);
	close_fd(&job->fd);
	while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
		;
	job->pid = 0;
	if (job->end) {
		json_t *writes =
			job->out.len ? json_loadb(job->out.data, job->out.len, 0, NULL)
				     : NULL;

		if (!writes)
			writes = json_pack("{s:b}", "truncated", 1);
		json_object_set_new(job->end, "writes", writes);
		append(k, "exec-end", take_ptr(job->end));
	}
	buf_clear(&job->out);
}

/* True: it has ended. */
static bool job_read(struct job *job)
{
	char text[8192];
	ssize_t n;

	while ((n = read(job->fd, text, sizeof(text))) > 0)
		if (buf_append(&job->out, text, (size_t)n) < 0)
			buf_clear(&job->out);
	return n == 0 || (errno != EAGAIN && errno != EINTR);
}

void keeper_audit_ready(struct keeper *k, uint32_t index)
{
	struct job *job = index < JOBS ? &k->audit->jobs[index] : NULL;

	if (job && job->pid && job_read(job))
		job_done(k, job);
}

/* At the end there is no loop any more to wait in. */
static void finish_jobs(struct keeper *k)
{
	int64_t until = keeper_now() + 1000;

	for (size_t i = 0; i < JOBS; i++) {
		struct job *job = &k->audit->jobs[i];
		struct pollfd p = {.fd = job->fd, .events = POLLIN};

		while (job->pid && !job_read(job)) {
			int64_t left = until - keeper_now();

			if (left <= 0) {
				kill(job->pid, SIGKILL);
				break;
			}
			poll(&p, 1, (int)left);
		}
		if (job->pid)
			job_done(k, job);
	}
}

static bool capturing(const struct keeper *k)
{
	for (size_t i = 0; i < JOBS; i++)
		if (k->audit->jobs[i].pid && !k->audit->jobs[i].end)
			return true;
	return false;
}

/* Called each turn of the loop; when the time comes is told with `due`. */
void keeper_audit_turn(struct keeper *k)
{
	struct keeper_audit *a = k->audit;

	if (!a || !a->capture_due || keeper_now() < a->capture_at || capturing(k))
		return;
	a->capture_due = false;
	a->capture_at = keeper_now() + CAPTURE_EVERY_MS;
	job_start(k, NULL, NULL);
}

int64_t keeper_audit_due(const struct keeper *k)
{
	const struct keeper_audit *a = k->audit;

	return a && a->capture_due ? a->capture_at : 0;
}

/* ---- commands -------------------------------------------------------------------- */

static uint64_t cpu_now(const struct keeper *k)
{
	uint64_t ns = 0;

	if (!k->box.place.has_cgroup || cgroup_cpu(&k->box.place.cgroup, &ns) < 0)
		return 0;
	return ns;
}

static struct running *find(struct keeper *k, uint32_t slot)
{
	struct running *r = k->audit->running;

	while (r && r->slot != slot)
		r = r->next;
	return r;
}

static void forget(struct keeper *k, struct running *r)
{
	struct running **p = &k->audit->running;

	while (*p && *p != r)
		p = &(*p)->next;
	if (*p)
		*p = r->next;
	free(r);
}

static bool nothing(const json_t *writes)
{
	return json_integer_value(json_object_get(writes, "created")) == 0 &&
	       json_integer_value(json_object_get(writes, "changed")) == 0 &&
	       json_integer_value(json_object_get(writes, "deleted")) == 0;
}

/* What was written, found now or by a child; then the record. A command that wrote
 * nothing is no news to the ledgers. */
static void write_end(struct keeper *k, struct running *r, json_t *end)
{
	struct keeper_audit *a = k->audit;
	bool more = a->skip_quick > 0, was_due = a->capture_due;
	json_t *writes = NULL;

	a->capture_due = true;
	if (a->skip_quick)
		a->skip_quick--;
	else
		writes = writes_scan(k->box.mounts, k->box.n_mounts, r->since_clock,
				     &quick, &more);
	if (more && writes)
		a->skip_quick = QUICK_SKIPS;
	if (more && job_start(k, r, end) == 0) {
		json_decref(writes);
		return;
	}
	if (!more && nothing(writes))
		a->capture_due = was_due;
	else if (!more) /* few paths: noted before anybody can change the host's */
		workspace_capture(&k->store, k->box.name, &k->box.spec);
	json_object_set_new(end, "writes",
			    writes ? writes : json_pack("{s:b}", "truncated", 1));
	append(k, "exec-end", end);
}

static void ended(struct keeper *k, struct running *r, json_t *end)
{
	uint64_t cpu = r->alone ? cpu_now(k) : 0;

	json_object_set_new(end, "ms", json_integer(keeper_now() - r->since_ms));
	if (cpu >= r->cpu_ns && r->cpu_ns)
		json_object_set_new(
			end, "cpuMs",
			json_integer((json_int_t)((cpu - r->cpu_ns) / 1000000)));
	write_end(k, r, end);
	forget(k, r);
}

bool keeper_audit_exec(struct keeper *k, struct client *c, const struct wire_frame *f)
{
	struct cove_error err = {0};
	struct running *r, *left = find(k, 0);
	json_t *j;

	if (left) /* the one before found no room in the guest */
		ended(k, left,
		      json_pack("{s:I, s:s}", "id", (json_int_t)left->id, "failed",
				"not started"));
	r = calloc(1, sizeof(*r));
	j = audit_exec(f->payload, f->len, &k->box.spec);
	put_client(j, c);
	if (!r) {
		json_decref(j);
		fail_nomem(&err);
	} else if (audit_append(k->audit->log, "exec", j, AUDIT_RESERVE, 0, &r->id,
				&err) == 0) {
		r->alone = k->audit->running == NULL;
		for (struct running *o = k->audit->running; o; o = o->next)
			o->alone = false;
		r->since_ms = keeper_now();
		r->since_clock = writes_clock();
		r->cpu_ns = r->alone ? cpu_now(k) : 0;
		r->next = k->audit->running;
		k->audit->running = r;
		return true;
	}
	free(r);
	/* Without the errno: it is not the command's, and must not look like it. */
	client_fail(c, f->stream, COVE_EIO, 0, err.msg, err.hint);
	return false;
}

void keeper_audit_runs(struct keeper *k, uint32_t slot)
{
	struct running *r = find(k, 0);

	if (r)
		r->slot = slot;
}

/* How it ended, as the guest says. */
static void put_status(json_t *end, const struct wire_frame *f)
{
	struct wire_attr a;
	size_t pos = 0;
	uint32_t v;

	while (wire_next_attr(f->payload, f->len, &pos, &a) > 0) {
		if (a.tag == WIRE_A_CODE && wire_attr_u32(&a, &v) == 0)
			json_object_set_new(end, "status", json_integer(v & 0xff));
		else if (a.tag == WIRE_A_SIGNAL && wire_attr_u32(&a, &v) == 0)
			json_object_set_new(end, "signal", json_integer(v));
		else if (a.tag == WIRE_A_ERRNO && wire_attr_u32(&a, &v) == 0)
			json_object_set_new(end, "failed",
					    json_string(strerror((int)(v & 0xfff))));
	}
}

void keeper_audit_frame(struct keeper *k, const struct wire_frame *f)
{
	struct running *r;
	json_t *end;

	if (f->type != WIRE_EXIT && f->type != WIRE_FAILED && f->type != WIRE_CLOSE)
		return;
	r = f->stream ? find(k, f->stream) : NULL;
	if (!r)
		return;
	end = json_pack("{s:I}", "id", (json_int_t)r->id);
	if (f->type == WIRE_CLOSE)
		json_object_set_new(end, "end", json_string("its client went away"));
	else
		put_status(end, f);
	ended(k, r, end);
}

/* ---- everything else ------------------------------------------------------------- */

bool keeper_audit_attach(struct keeper *k, struct client *c, const struct wire_frame *f)
{
	struct cove_error err = {0};
	json_t *j = json_object();

	put_client(j, c);
	if (audit_append(k->audit->log, "attach", j, 0, 0, NULL, &err) == 0)
		return true;
	client_fail(c, f->stream, COVE_EIO, 0, err.msg, err.hint);
	return false;
}

int keeper_audit_spec(struct keeper *k, const struct spec *new, struct cove_error *err)
{
	json_t *j = audit_spec_change(&k->box.spec, new);

	if (!j)
		return 0;
	put_client(j, k->asking);
	return audit_append(k->audit->log, "spec", j, 0, 0, NULL, err);
}

void keeper_audit_kill(struct keeper *k)
{
	json_t *j = json_object();

	put_client(j, k->asking);
	append(k, "kill", j);
}

void keeper_audit_net(struct keeper *k, const char *event, json_t *fields)
{
	if (strcmp(event, "policy") == 0)
		put_client(fields, k->asking);
	if (k->audit)
		append(k, event, fields);
	else
		json_decref(fields);
}

int keeper_audit_start(struct keeper *k, struct cove_error *err)
{
	struct keeper_audit *a = calloc(1, sizeof(*a));
	json_t *j;

	if (!a)
		return fail_nomem(err);
	for (size_t i = 0; i < JOBS; i++)
		a->jobs[i].fd = -1;
	if (audit_open(&a->log, &k->store, k->box.name, err) < 0) {
		free(a);
		return err->code;
	}
	j = json_pack("{s:s, s:i, s:i, s:o}", "backend", k->box.place.backend->name,
		      "keeperPid", (int)getpid(), "uid", (int)getuid(), "degraded",
		      box_degraded(&k->box));
	if (audit_append(a->log, "start", j, AUDIT_RESERVE, 0, NULL, err) < 0) {
		audit_close(a->log);
		free(a);
		return err->code;
	}
	k->audit = a;
	return 0;
}

void keeper_audit_stop(struct keeper *k)
{
	struct keeper_audit *a = k->audit;
	json_t *open, *j;

	if (!a)
		return;
	open = json_array();
	finish_jobs(k);
	for (struct running *r = a->running; r && json_array_size(open) < 100;
	     r = r->next)
		json_array_append_new(open, json_integer((json_int_t)r->id));
	j = json_pack("{s:s}", "reason", k->reason[0] ? k->reason : "ended");
	if (json_array_size(open))
		json_object_set(j, "unfinished", open);
	json_decref(open);
	append(k, "stop", j);
	while (a->running)
		forget(k, a->running);
	audit_close(a->log);
	free(a);
	k->audit = NULL;
	workspace_capture(&k->store, k->box.name, &k->box.spec);
}
