/* SPDX-License-Identifier: Apache-2.0 */
#include "core/quarantine.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/store_impl.h"
#include "os/copytree.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define DIRECTORY "quarantine"
#define LIST "list.jsonl"
#define SEEN "seen"
#define LIST_MAX (4u << 20)

static int open_place(struct store *st, const char *box, bool make)
{
	char path[SPEC_NAME_MAX + 32];
	int fd;

	snprintf(path, sizeof(path), "%s/" DIRECTORY, box);
	if (make && mkdirat(st->boxes, path, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(st->boxes, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* ---- moving --------------------------------------------------------------------- */

static void new_name(char *out, size_t size, const char *name)
{
	uint32_t r = 0;
	char plain[64];
	size_t n = 0;

	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		r = (uint32_t)getpid();
	for (; n < sizeof(plain) - 1 && name[n]; n++)
		plain[n] = isalnum((unsigned char)name[n]) || strchr("._-", name[n])
				   ? name[n]
				   : '_';
	plain[n] = '\0';
	snprintf(out, size, "%lld-%08x-%s", (long long)time(NULL), r, plain);
}

/* From a place where it is already out of the way. */
static int copy_over(int root, const char *from, int place, const char *to)
{
	struct copytree c = {.label = DIRECTORY, .known_dir = -1};
	struct cove_error ignored = {0};
	bool no_reflink = false;
	char link[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (fstatat(root, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(root, from, link, sizeof(link) - 1);
		if (n < 0)
			return -errno;
		link[n] = '\0';
		return symlinkat(link, place, to) < 0 ? -errno : 0;
	}
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return -EINVAL;
	cleanup_fd int in =
		openat(root, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (in < 0 || fstat(in, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return copytree(&c, in, place, to, &ignored) < 0 ? -EIO : 0;
	cleanup_fd int out =
		openat(place, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return out < 0 ? -errno : copy_content(in, out, &st, &no_reflink);
}

/* Another file system: first out of the way by a rename beside the mount's root, so that
 * nothing runs it from now on, then copied. What cannot be copied stays there. */
static int move_far(int root, int dir, const char *name, int place, const char *to,
		    char *ret_left, size_t size)
{
	snprintf(ret_left, size, ".cove-quarantine-%s", to);
	if (renameat(dir, name, root, ret_left) < 0)
		return -errno;
	if (copy_over(root, ret_left, place, to) < 0 ||
	    remove_tree_at(root, ret_left) < 0) {
		remove_tree_at(place, to);
		return 0;
	}
	*ret_left = '\0';
	return 0;
}

/* ---- the list ------------------------------------------------------------------- */

static void add_line(struct store *st, const char *box, int place, const char *path,
		     const char *file, const char *why)
{
	struct cove_error ignored = {0};
	json_t *o = json_pack("{s:I, s:o, s:s, s:s}", "time", (json_int_t)time(NULL),
			      "path", audit_text(path, strlen(path), PATH_MAX), "file",
			      file, "why", why);
	cleanup_free char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	cleanup_buf struct buf line = BUF_INIT(1 << 16);
	cleanup_fd int fd =
		openat(place, LIST,
		       O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (text && fd >= 0 && buf_printf(&line, "%s\n", text) == 0)
		write_all(fd, line.data, line.len);
	audit_log(st, box, "quarantine", o, &ignored);
}

int quarantine_take(struct store *st, const char *box, int root, int dir,
		    const char *name, const char *path, const char *why)
{
	cleanup_fd int place = open_place(st, box, true);
	const char *slash = strrchr(path, '/');
	char to[128], left[192] = "";
	int r = 0;

	if (place < 0)
		return place;
	new_name(to, sizeof(to), slash ? slash + 1 : path);
	if (renameat(dir, name, place, to) < 0)
		r = errno == EXDEV
			    ? move_far(root, dir, name, place, to, left, sizeof(left))
			    : -errno;
	if (r == 0)
		add_line(st, box, place, path, *left ? left : to, why);
	return r;
}

void quarantine_note(struct store *st, const char *box, const char *path, const char *why)
{
	cleanup_fd int place = open_place(st, box, true);

	if (place >= 0)
		add_line(st, box, place, path, "", why);
}

static int read_list(struct store *st, const char *box, struct buf *text)
{
	cleanup_fd int place = open_place(st, box, false);

	return place < 0 ? place : read_file_at(place, LIST, text);
}

/* How many things lie in a quarantine, or -errno; they have names from new_name(). */
static int count_taken(int place)
{
	int fd = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		n = -errno;
		close_fd(&fd);
		return n;
	}
	while ((e = readdir(d)))
		n += isdigit((unsigned char)e->d_name[0]) != 0;
	closedir(d);
	return n;
}

static bool has(int place, const char *file)
{
	struct stat s;

	return fstatat(place, file, &s, AT_SYMLINK_NOFOLLOW) == 0;
}

bool quarantine_any(struct store *st, const char *box)
{
	cleanup_fd int place = open_place(st, box, false);

	return place >= 0 && (has(place, LIST) || count_taken(place));
}

json_t *quarantine_list(struct store *st, const char *box)
{
	cleanup_buf struct buf text = BUF_INIT(LIST_MAX);
	json_t *list;

	if (read_list(st, box, &text) < 0 || !text.len)
		return NULL;
	list = json_array();
	for (char *at = text.data, *end; list && (end = strchr(at, '\n')); at = end + 1) {
		json_t *o = json_loadb(at, (size_t)(end - at), 0, NULL);

		if (o) /* a line that was cut off is left out */
			json_array_append_new(list, o);
	}
	return list;
}

/* "PATH: WHY; moved to FILE" */
static void tell(struct store *st, const char *box, const json_t *o, struct buf *out)
{
	const char *path = json_string_value(json_object_get(o, "path"));
	const char *why = json_string_value(json_object_get(o, "why"));
	const char *file = json_string_value(json_object_get(o, "file"));

	buf_printf(out, "%s: %s", path ? path : "?", why ? why : "");
	if (file && *file)
		buf_printf(out, "; moved to %s/sandboxes/%s/" DIRECTORY "/%s", st->home,
			   box, file);
	buf_puts(out, "\n");
}

static void mark_told(int place, size_t n)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu\n", n);
	write_file_atomic(place, SEEN, text, strlen(text), 0600, 0);
}

/* ---- of removed sandboxes ------------------------------------------------------- */

int quarantine_keep(struct store *st, const char *box, struct cove_error *err)
{
	char from[SPEC_NAME_MAX + 32], to[SPEC_NAME_MAX + 40];
	cleanup_fd int place = open_place(st, box, false);
	int r = place < 0 ? place : count_taken(place);

	if (r == 0 || r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0; /* none that we made */
	cleanup_fd int kept = r < 0 ? r : store_kept_open(st, DIRECTORY, true);
	r = kept < 0 ? kept : store_kept_make(kept, "", box, to, sizeof(to));
	if (r == 0) {
		unlinkat(place, SEEN, 0); /* its new place is news */
		snprintf(from, sizeof(from), "%s/" DIRECTORY, box);
		/* over the empty directory that holds the name for it */
		if (renameat(st->boxes, from, kept, to) < 0) {
			r = -errno;
			unlinkat(kept, to, AT_REMOVEDIR);
		} else {
			fsync(kept);
		}
	}
	if (r == 0)
		return 0;
	fail(err, COVE_EIO, -r, "%s: keep its quarantined files in %s/" DIRECTORY, box,
	     st->home);
	return hint(err, "nothing was removed");
}

/* Where the quarantines of removed sandboxes of that name are, as far as not told. */
static char *kept_news(struct store *st, const char *box)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 16);
	cleanup_fd int kept = store_kept_open(st, DIRECTORY, false);
	int fd = kept < 0 ? -1 : openat(kept, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		int n;

		if (!store_kept_stamp(e->d_name, box))
			continue;
		cleanup_fd int place = openat(
			kept, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		n = place < 0 || has(place, SEEN) ? 0 : count_taken(place);
		if (n > 0 &&
		    buf_printf(&out,
			       "%s: %d quarantined file%s kept in %s/" DIRECTORY "/%s\n",
			       box, n, n == 1 ? " is" : "s are", st->home,
			       e->d_name) == 0)
			mark_told(place, (size_t)n);
	}
	if (d)
		closedir(d);
	else
		close_fd(&fd);
	return out.len ? buf_steal(&out) : NULL;
}

char *quarantine_news(struct store *st, const char *box)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 16);
	cleanup_buf struct buf seen = BUF_INIT(64);
	json_t *list = quarantine_list(st, box);
	size_t from = 0, n = json_array_size(list);

	if (!list && !store_exists(st, box))
		return kept_news(st, box);
	cleanup_fd int place = list ? open_place(st, box, false) : -1;
	if (place >= 0 && read_file_at(place, SEEN, &seen) == 0 && seen.data)
		from = strtoul(seen.data, NULL, 10);
	for (size_t i = from; i < n; i++)
		tell(st, box, json_array_get(list, i), &out);
	json_decref(list);
	if (place >= 0 && n > from)
		mark_told(place, n);
	return out.len ? buf_steal(&out) : NULL;
}
