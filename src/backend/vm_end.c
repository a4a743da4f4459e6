/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_end - how a machine ended, told as what it was.
 *
 * Four witnesses: the kernel of the host (how cove-fs and cove-vmm ended), cove-vmm (how
 * QEMU ended), QEMU's control channel (why it ended by itself), and the console, which
 * anybody inside can write to. They are asked in this order, and the first that knows
 * something decides what is said; the last lines of the console are the hint. From the
 * last two only words are taken: they change nothing but a message.
 */
#include "backend/vm_impl.h"

#include "base/util.h"
#include "ipc/vmm.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define LAST_WORDS_MS 700
#define QUOTE_LINES 6
#define QUOTE_MAX 250 /* of a hint, which has room for 300 */
#define SHOWN_MAX 120 /* of one line */
#define PANIC "Kernel panic - not syncing: "
#define OWN_WORDS "cove-guest: "

#define CALLED_VMM "cove-vmm, which runs the machine,"
#define CALLED_FS "cove-fs, which serves its files,"

/* What became of a process. */
struct fate {
	enum { UNKNOWN, RUNS, SIGNAL, EXIT } how;
	int n; /* which signal, or the exit status */
};

struct words {
	struct fate qemu;
	char text[VMM_CONSOLE_MAX + 1];
	size_t n;
};

/* ---- cove-vmm and the console --------------------------------------------------- */

/* "running", "signal N" or "exit N", ended by a newline. */
static struct fate parse_fate(const char *status)
{
	struct fate f = {UNKNOWN, 0};

	if (strncmp(status, "running", 7) == 0)
		f.how = RUNS;
	else if (sscanf(status, "signal %d", &f.n) == 1)
		f.how = SIGNAL;
	else if (sscanf(status, "exit %d", &f.n) == 1)
		f.how = EXIT;
	return f;
}

/* False, and nothing has changed: there came no packet. */
static bool read_words(int lifeline, struct words *w)
{
	char packet[VMM_STATUS_MAX + VMM_CONSOLE_MAX];
	struct pollfd p = {.fd = lifeline, .events = POLLIN};
	const char *end = NULL;
	ssize_t n = -1;

	if (poll(&p, 1, LAST_WORDS_MS) > 0)
		n = recv(lifeline, packet, sizeof(packet), MSG_DONTWAIT);
	if (n > 0)
		end = memchr(packet, '\n', min_size((size_t)n, VMM_STATUS_MAX));
	if (!end)
		return false;
	w->qemu = parse_fate(packet);
	end++;
	w->n = min_size((size_t)(packet + n - end), VMM_CONSOLE_MAX);
	memcpy(w->text, end, w->n);
	w->text[w->n] = '\0';
	return true;
}

/* One whose QEMU has ended answered before it was asked. */
static bool ask_words(int lifeline, struct words *w)
{
	(void)!send(lifeline, "c", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	return read_words(lifeline, w);
}

static bool printable(char c)
{
	return c >= ' ' && c < 127;
}

static void copy_line(const char *from, char *out, size_t size)
{
	size_t at = 0;

	for (; *from && *from != '\n' && at + 1 < size; from++)
		if (printable(*from))
			out[at++] = *from;
	out[at] = '\0';
}

/* What follows the last occurrence of a beginning; NULL: there is none. */
static const char *find_last(const struct words *w, const char *what)
{
	const char *found = NULL, *end = w->text + w->n;
	size_t n = strlen(what);

	for (const char *at = w->text; at + n <= end; at++)
		if (memcmp(at, what, n) == 0)
			found = at + n;
	return found;
}

/* "[    1.234567] ": how much of it is at the beginning of this text. */
static size_t stamp(const char *text)
{
	size_t n = *text == '[' ? strspn(text + 1, " .0123456789") + 1 : 0;

	return n && text[n] == ']' && text[n + 1] == ' ' ? n + 2 : 0;
}

/* Where the lines end that say most: after a panic comes what no reader needs, but for
 * the line that names the process. */
static size_t telling_end(const struct words *w)
{
	const char *panic = find_last(w, PANIC), *end = w->text + w->n;

	for (int i = 0; panic && i < 2; i++) {
		panic = memchr(panic, '\n', (size_t)(end - panic));
		panic += panic != NULL;
	}
	return panic ? (size_t)(panic - w->text) : w->n;
}

/* The last lines, on one; "": the console said nothing. */
static void quote(const struct words *w, char *out, size_t size)
{
	size_t end = telling_end(w), begin, lines = 0, at = 0;
	const char *line;

	while (end && !printable(w->text[end - 1]))
		end--;
	begin = end;
	while (begin && lines < QUOTE_LINES && end - begin < size - 1)
		lines += w->text[--begin] == '\n';
	/* Not a part of a line, unless that is all there is. */
	line = begin ? memchr(w->text + begin, '\n', end - begin) : NULL;
	if (line)
		begin = (size_t)(line - w->text);
	for (size_t i = begin; i < end && at + 4 < size; i++) {
		if (i == 0 || w->text[i - 1] == '\n')
			i += stamp(w->text + i);
		if (w->text[i] == '\n' && at)
			at += (size_t)snprintf(out + at, size - at, " | ");
		else if (printable(w->text[i]))
			out[at++] = w->text[i];
	}
	out[at] = '\0';
}

static void hint_words(const struct words *w, struct cove_error *why)
{
	char said[QUOTE_MAX];

	quote(w, said, sizeof(said));
	if (said[0])
		hint(why, "its console: %s", said);
}

int vm_quote(int lifeline, struct cove_error *err)
{
	struct words *w = calloc(1, sizeof(*w));

	if (w && ask_words(lifeline, w))
		hint_words(w, err);
	free(w);
	return err->code;
}

/* ---- our processes -------------------------------------------------------------- */

/* The process stays to be collected. wait_ms: for one that is about to end. */
static struct fate fate_of(int pidfd, int wait_ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int options = WEXITED | WNOHANG | WNOWAIT | __WALL;
	siginfo_t si = {0};

	poll(&p, 1, wait_ms);
	if (pidfd < 0 || waitid(P_PIDFD, (id_t)pidfd, &si, options) < 0)
		return (struct fate){UNKNOWN, 0};
	if (si.si_pid == 0)
		return (struct fate){RUNS, 0};
	return (struct fate){si.si_code == CLD_EXITED ? EXIT : SIGNAL, si.si_status};
}

/* p: may be NULL. */
static bool out_of_memory(const struct place *p)
{
	struct cgroup_stats s = {0};

	return p && p->has_cgroup && cgroup_stats(&p->cgroup, &s) == 0 && s.oom_kills > 0;
}

static void killed(const struct place *p, const char *who, int signo,
		   struct cove_error *why)
{
	if (signo != SIGKILL || !out_of_memory(p)) {
		fail(why, COVE_EGONE, 0, "%s was killed by signal %d", who, signo);
		return;
	}
	fail(why, COVE_EGONE, 0, "%s was killed: out of memory on the host", who);
	hint(why, "the machine's processes may have resources.memoryMiB and %u MiB",
	     VM_OVERHEAD >> 20);
}

/* False: it ended as it should, and that explains nothing. */
static bool blame(const struct place *p, const char *who, struct fate f,
		  struct cove_error *why)
{
	if (f.how == SIGNAL)
		killed(p, who, f.n, why);
	else if (f.how == EXIT && f.n != 0)
		fail(why, COVE_EGONE, 0, "%s failed with status %d", who, f.n);
	else
		return false;
	return true;
}

/* When QEMU ends, cove-fs does so too, and says nothing by that. */
static bool files_ended(const struct place *p, bool qemu_runs, struct cove_error *why)
{
	struct fate f = fate_of(p->vm->fs.pidfd, 0);

	if (f.how != SIGNAL && !(qemu_runs && f.how == EXIT))
		return false;
	if (!blame(p, CALLED_FS, f, why))
		fail(why, COVE_EGONE, 0, CALLED_FS " has ended");
	return true;
}

/* ---- the guest ------------------------------------------------------------------ */

static const char *told_reason(struct qmp *q)
{
	static const struct {
		const char *reason, *text;
	} texts[] = {
		{"guest-reset",    "the guest reset its machine"       },
		{"guest-shutdown", "the guest switched its machine off"},
		{"guest-panic",    "the guest's kernel panicked"       },
		{"host-signal",    "QEMU was told to end by a signal"  },
	};
	char reason[40];

	qmp_shutdown_reason(q, reason, sizeof(reason));
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (strcmp(texts[i].reason, reason) == 0)
			return texts[i].text;
	return "the machine ended without a reason";
}

/* QEMU ended as it should, by what the guest did. q may be NULL. */
static void guest_end(struct qmp *q, const struct words *w, struct cove_error *why)
{
	static const struct {
		const char *begin, *text;
	} lines[] = {
		{PANIC,     "the guest's kernel panicked"},
		{OWN_WORDS, "the guest gave up"          },
	};
	char shown[SHOWN_MAX];

	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		const char *line = find_last(w, lines[i].begin);

		copy_line(line ? line : "", shown, sizeof(shown));
		if (shown[0] && strcmp(shown, "ready") != 0) {
			fail(why, COVE_EGONE, 0, "%s: %s", lines[i].text, shown);
			return;
		}
	}
	fail(why, COVE_EGONE, 0, "%s", q ? told_reason(q) : "the machine ended");
}

static void qemu_runs(const struct place *p, enum place_trouble t, struct cove_error *why)
{
	static const char *const texts[] = {
		[PLACE_NOT_UP] = "the guest does not answer",
		[PLACE_ENDED] = "the guest has left its link",
		[PLACE_SILENT] = "the guest hangs: no answer",
	};

	fail(why, COVE_EGONE, 0, "%s", texts[t]);
	if (t == PLACE_SILENT)
		fail(why, COVE_EGONE, 0, "%s for %u s", texts[t], p->silence_ms / 1000);
}

static void explain(struct place *p, enum place_trouble t, struct words *w,
		    struct cove_error *why)
{
	int lifeline = p->vm->lifeline;
	bool told = ask_words(lifeline, w);

	if (files_ended(p, false, why))
		return;
	/* Its end of the link closes a moment before it has ended. */
	if (told && w->qemu.how == RUNS && t != PLACE_SILENT)
		read_words(lifeline, w);
	if (!told) {
		if (!blame(p, CALLED_VMM, fate_of(p->pidfd, LAST_WORDS_MS), why))
			fail(why, COVE_EGONE, 0, "the machine ended");
	} else if (w->qemu.how == RUNS) {
		if (!files_ended(p, true, why))
			qemu_runs(p, t, why);
	} else if (!blame(p, "QEMU", w->qemu, why)) {
		guest_end(&p->vm->qmp, w, why);
	}
}

void vm_explain(struct place *p, enum place_trouble t, struct cove_error *why)
{
	struct words *w = calloc(1, sizeof(*w));

	if (!w) {
		fail_nomem(why);
		return;
	}
	explain(p, t, w, why);
	if (!why->hint[0])
		hint_words(w, why);
	/* Perhaps it is damaged where no check sees it; the next start makes a new one.
	 */
	if (t == PLACE_NOT_UP && p->vm->restored) {
		vm_template_discard(&p->vm->template);
		wrap(why, "it did not come up, and its template is thrown away");
	}
	free(w);
}

int vm_boot_failed(int lifeline, struct cove_error *err)
{
	struct words *w = calloc(1, sizeof(*w));

	if (!w)
		return fail_nomem(err);
	if (!read_words(lifeline, w))
		fail(err, COVE_EGONE, 0, CALLED_VMM " has ended");
	else if (w->qemu.how == SIGNAL && w->qemu.n == SIGBUS)
		fail(err, COVE_EIO, ENOSPC, "its memory file");
	else if (!blame(NULL, "QEMU", w->qemu, err))
		guest_end(NULL, w, err);
	hint_words(w, err);
	free(w);
	return wrap(err, "boot");
}

/* ---- noticing ------------------------------------------------------------------- */

/* QEMU's end ends the link. A machine without its files runs on, and must not. */
int vm_watch(struct place *p, struct cove_error *err)
{
	p->alarm = fcntl(p->vm->fs.pidfd, F_DUPFD_CLOEXEC, 0);
	return p->alarm < 0 ? fail(err, COVE_EIO, errno, "watch the machine") : 0;
}
