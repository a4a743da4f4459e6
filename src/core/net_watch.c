/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_watch - the policy file: read, watched, read again.
 *
 * Editors write in place or rename over it, so its directory is watched, not the file;
 * where the path is a link, that of its target too. A file that is not right changes
 * nothing: the log, the audit log and 'cove net status' say what is wrong with it.
 */
#include "core/net_impl.h"

#include "base/util.h"

#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>

#define EVENTS \
	(IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | \
	 IN_ONLYDIR)

static int64_t mono_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- watching -------------------------------------------------------------------- */

static void watch_parent(struct net *n, size_t slot, const char *path)
{
	char dir[PATH_MAX];
	const char *slash = path ? strrchr(path, '/') : NULL;
	int len = slash && slash > path ? (int)(slash - path) : 1;

	if (slash && len < (int)sizeof(dir)) {
		snprintf(dir, sizeof(dir), "%.*s", len, path);
		n->watches[slot] = inotify_add_watch(n->inotify, dir, EVENTS);
	}
}

void net_watch_start(struct box *b)
{
	struct net *n = b->net;
	const char *path = b->spec.network.file;
	cleanup_free char *real = path ? realpath(path, NULL) : NULL;

	for (size_t i = 0; i < ARRAY_LEN(n->watches); i++)
		if (n->watches[i] >= 0)
			inotify_rm_watch(n->inotify, n->watches[i]);
	n->watches[0] = n->watches[1] = -1;
	watch_parent(n, 0, path);
	if (real && strcmp(real, path) != 0)
		watch_parent(n, 1, real);
}

int net_fd(const struct box *b)
{
	return b->net ? b->net->inotify : -1;
}

/* Who writes to the log is the role; we hear of it once, look after a while, and listen
 * again. A quiet sandbox wakes nobody. */
void net_watch_log(struct net *n)
{
	char path[40];

	n->log_check_ms = 0;
	if (netlog_fd(n->log) < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", netlog_fd(n->log));
	n->log_watch = inotify_add_watch(n->inotify, path, IN_MODIFY | IN_ONESHOT);
}

/* Only the names matter: what the file is now is read once they have settled. */
static bool names_it(const char *path, const char *real, const struct inotify_event *e)
{
	const char *a = strrchr(path, '/'), *r = real ? strrchr(real, '/') : NULL;

	if (e->mask & IN_Q_OVERFLOW)
		return true;
	return e->len && ((a && strcmp(e->name, a + 1) == 0) ||
			  (r && strcmp(e->name, r + 1) == 0) ||
			  e->name[0] == '.'); /* "..data" and the like */
}

void net_watch_ready(struct box *b)
{
	struct net *n = b->net;
	const char *path = b->spec.network.file;
	cleanup_free char *real = NULL;
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool hit = false, whole = false;
	ssize_t got;

	while ((got = read(n->inotify, buf, sizeof(buf))) > 0)
		for (ssize_t at = 0; at < got;) {
			struct inotify_event e;

			memcpy(&e, buf + at, sizeof(e));
			if (path && !real)
				real = realpath(path, NULL);
			if (e.wd == n->log_watch && (e.mask & IN_MODIFY))
				n->log_check_ms = mono_ms() + LOG_CHECK_MS;
			if (path && e.wd != n->log_watch &&
			    names_it(path, real,
				     (const struct inotify_event *)(void *)(buf + at))) {
				hit = true;
				/* Closed, or renamed: nobody is writing to it. */
				whole |= (e.mask & (IN_CLOSE_WRITE | IN_MOVED_TO)) != 0;
			}
			at += (ssize_t)(sizeof(e) + e.len);
		}
	if (!hit)
		return;
	n->retried = false;
	n->settle_ms = mono_ms() + (whole ? 0 : WATCH_SETTLE_MS);
}

/* ---- reading again --------------------------------------------------------------- */

/* When it was saved: its last change, or its last rename. */
static int64_t saved_us(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return 0;
	return (int64_t)st.st_ctim.tv_sec * 1000000 + st.st_ctim.tv_nsec / 1000;
}

static void note_problem(struct box *b, const char *path, const struct cove_error *err)
{
	struct net *n = b->net;

	if (strcmp(n->problem, err->msg) == 0)
		return; /* said already */
	snprintf(n->problem, sizeof(n->problem), "%.399s", err->msg);
	net_notice(b, "policy",
		   json_pack("{s:s, s:s, s:s}", "change", "reload", "file", path, "error",
			     err->msg));
}

int net_reload(struct box *b, const char *path, struct egress_change *ret,
	       struct cove_error *err)
{
	struct net *n = b->net;
	const char *name = path ? path : b->spec.network.file;
	struct netfile file = {0};
	struct net_change c = {.why = "reload", .detail = name, .file = &file};
	int r;

	if (!name) {
		fail(err, COVE_ESTATE, 0, "there is no policy file");
		return hint(err, "name one: cove net reload NAME --file FILE");
	}
	if (!n)
		return fail(err, COVE_ESTATE, 0,
			    "the sandbox was started without a network");
	r = netfile_read(&file, name, err);
	if (r == 0 && !ret && netfile_same(&file, &n->file))
		name = NULL; /* touched, not changed */
	else if (r == 0)
		r = net_change(b, &c, ret, err);
	netfile_clear(&file);
	if (r < 0 && !ret && !n->retried) { /* it may be half written */
		n->retried = true;
		n->settle_ms = mono_ms() + WATCH_RETRY_MS;
		return r;
	}
	n->retried = false;
	if (r < 0) {
		note_problem(b, name, err);
		return r;
	}
	n->problem[0] = '\0';
	if (name && !path)
		n->save_to_effect = n->effect_us - saved_us(name);
	return 0;
}
