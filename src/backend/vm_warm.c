/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_warm - what the machine of a template does before it is saved.
 *
 * Theory of operation. Most of what a sandbox on the host's own system waits for at its
 * start is the same for all of them: the first words with the server of its files, the
 * system's directories, the loader, the C library, a shell. So the template is such a
 * sandbox, without anything that is one sandbox's alone: it gets the first part of SETUP,
 * runs a program, and falls silent. A start goes on from there with RESUME.
 *
 * What the guest's kernel knows of files by then goes with it, and may be old: the host's
 * system is not what it was. cove-fs finds each of them again by its name, compares, and
 * the guest hears of every difference before it is told to go on (fs/tables.h,
 * FS_SETTLE).
 */
#include "backend/vm_impl.h"

#include "base/fscontrol.h"
#include "base/util.h"
#include "ipc/link.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <time.h>

/* How long that may take: alone it is half of what the boot took, so ten times as long is
 * a host that became very busy meanwhile, or a shell that hangs. Then it is given up, and
 * somebody has waited for it: not for minutes. */
#define WARM_PER_BOOT 5
#define WARM_MIN_MS 20000
#define WARM_MAX_MS 120000
#define STREAM 1

/* A shell that starts a program: what nearly every command begins with. */
static const char *const program[] = {"/bin/sh", "-c", "/bin/true; :"};

struct talk {
	struct link link;
	int lifeline;
	int64_t until;
	struct cove_error *err;
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int more(struct talk *t)
{
	struct pollfd p[] = {
		{.fd = t->link.in_fd, .events = POLLIN},
		{.fd = t->lifeline,   .events = POLLIN}
        };
	int64_t left = t->until - now_ms();

	if (link_flush(&t->link) > 0)
		p[0].events |= POLLOUT;
	if (left <= 0)
		return fail(t->err, COVE_ETIMEDOUT, 0, "the guest does not get ready");
	if (poll(p, ARRAY_LEN(p), (int)left) < 0 && errno != EINTR)
		return fail(t->err, COVE_EIO, errno, "poll");
	if (p[1].revents || (p[0].revents && link_fill(&t->link) < 0))
		return vm_boot_failed(t->lifeline, t->err);
	return 0;
}

/* Its last words, which are somebody else's bytes: printable, and no more than this. */
static int said_bye(struct talk *t, const struct wire_frame *f)
{
	char text[200];
	size_t n = min_size(f->len, sizeof(text) - 1);

	for (size_t i = 0; i < n; i++)
		text[i] = (char)(f->payload[i] < 0x20 || f->payload[i] >= 0x7f
					 ? '?'
					 : f->payload[i]);
	text[n] = '\0';
	return fail(t->err, COVE_EGONE, 0, "the guest: %s", text);
}

/* Until a frame of that type comes; what it brings is valid until the next. */
static int expect(struct talk *t, uint8_t type, struct wire_frame *f)
{
	int r;

	for (;;) {
		while ((r = link_next(&t->link, f)) > 0) {
			if (f->type == type)
				return 0;
			if (f->type == WIRE_BYE)
				return said_bye(t, f);
		}
		if (r < 0)
			return fail(t->err, COVE_EGONE, 0, "the guest: no frames");
		if (more(t) < 0)
			return t->err->code;
	}
}

static int send(struct talk *t, uint8_t type, uint32_t stream, const struct wire_out *o)
{
	int r = o && o->overflow ? -EMSGSIZE
				 : link_send(&t->link, type, 0, stream,
					     o ? o->data : NULL, o ? o->len : 0);

	return r < 0 ? fail(t->err, COVE_EIO, -r, "link") : 0;
}

/* ---- step by step --------------------------------------------------------------- */

static int set_up(struct talk *t, const struct place_config *c, bool home)
{
	uint8_t payload[4096];
	struct wire_out o;

	wire_out_init(&o, payload, sizeof(payload));
	vm_setup_part(c, home, &o);
	return send(t, WIRE_SETUP, 0, &o);
}

/* Whether the host has these programs is nothing that a template depends on. */
static int run_program(struct talk *t)
{
	struct wire_frame f;
	uint8_t payload[512];
	struct wire_out o;

	wire_out_init(&o, payload, sizeof(payload));
	for (size_t i = 0; i < ARRAY_LEN(program); i++)
		wire_put_str(&o, WIRE_A_ARG, program[i]);
	wire_put_str(&o, WIRE_A_CWD, "/");
	wire_put_u32(&o, WIRE_A_FLAGS, WIRE_EXEC_NO_STDIN | WIRE_EXEC_NO_OUTPUT);
	if (send(t, WIRE_EXEC, STREAM, &o) < 0 || expect(t, WIRE_CLOSE, &f) < 0)
		return t->err->code;
	return send(t, WIRE_CLOSE, STREAM, NULL);
}

static int quiesce(struct talk *t)
{
	struct wire_frame f;
	struct wire_attr a;
	uint32_t sys = EPROTO;
	uint8_t payload[16];
	struct wire_out o;
	size_t pos = 0;

	wire_out_init(&o, payload, sizeof(payload));
	wire_put_u32(&o, WIRE_A_FLAGS, WIRE_QUIESCE_ALONE);
	if (send(t, WIRE_QUIESCE, 0, &o) < 0 || expect(t, WIRE_QUIET, &f) < 0)
		return t->err->code;
	while (wire_next_attr(f.payload, f.len, &pos, &a) > 0)
		if (a.tag == WIRE_A_ERRNO)
			wire_attr_u32(&a, &sys);
	return sys ? fail(t->err, COVE_EIO, (int)sys, "the guest does not become quiet")
		   : 0;
}

int64_t vm_warm_ms(int64_t boot_ms)
{
	int64_t ms = boot_ms * WARM_PER_BOOT;

	return ms < WARM_MIN_MS ? WARM_MIN_MS : ms > WARM_MAX_MS ? WARM_MAX_MS : ms;
}

int vm_warm(struct place *p, const struct place_config *c, struct vm_channels *ch,
	    int64_t limit_ms, struct cove_error *err)
{
	struct talk t = {
		.lifeline = ch->lifeline[0], .until = now_ms() + limit_ms, .err = err};
	int r;

	p->vm->fs_how = "template";
	if (vm_start_fs(p, c, ch, err) < 0)
		return err->code;
	if (fcntl(ch->link[0], F_SETFL, O_NONBLOCK) < 0)
		return fail(err, COVE_EIO, errno, "link");
	link_init(&t.link, ch->link[0], ch->link[0]);
	r = link_hello(&t.link) < 0 ? fail_nomem(err)
				    : set_up(&t, c, p->vm->host.begun_home);
	if (r == 0)
		r = run_program(&t);
	if (r == 0)
		r = vm_ask_fs(p->vm, FS_HOLD, VM_FS_MS, err);
	if (r == 0)
		r = quiesce(&t);
	if (r == 0)
		r = vm_ask_fs(p->vm, FS_SAVE, VM_FS_MS, err);
	link_clear(&t.link);
	return r < 0 ? wrap(err, "its machine") : 0;
}
