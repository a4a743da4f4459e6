/* SPDX-License-Identifier: Apache-2.0 */
#include "work/attrs.h"

#include "base/util.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* XATTR_LIST_MAX and XATTR_SIZE_MAX of the kernel */
#define LIST_MAX 65536
#define VALUE_MAX 65536

/* There is no call that takes a directory and a name before Linux 6.13; the magic link
 * of the directory's descriptor is resolved by the kernel, the name not followed. */
struct place {
	char path[32 + NAME_MAX];
	bool by_fd;
	int fd;
};

static int place_set(struct place *p, int dir, const char *name)
{
	int n;

	*p = (struct place){.by_fd = !name, .fd = dir};
	if (!name)
		return 0;
	n = snprintf(p->path, sizeof(p->path), "/proc/self/fd/%d/%s", dir, name);
	return n < (int)sizeof(p->path) ? 0 : -ENAMETOOLONG;
}

/* 0 names if the file system has none */
static ssize_t list_names(const struct place *p, char *names, size_t size)
{
	ssize_t n = p->by_fd ? flistxattr(p->fd, names, size)
			     : llistxattr(p->path, names, size);

	if (n < 0 && (errno == ENOTSUP || errno == ENOSYS))
		return 0;
	return n < 0 ? -errno : n;
}

static ssize_t get_value(const struct place *p, const char *name, void *value,
			 size_t size)
{
	ssize_t n = p->by_fd ? fgetxattr(p->fd, name, value, size)
			     : lgetxattr(p->path, name, value, size);

	return n < 0 ? -errno : n;
}

/* ---- which is which ------------------------------------------------------------- */

static const char *overlay_note(const char *name)
{
	static const char *const prefixes[] = {"user.overlay.", "trusted.overlay."};

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return name + strlen(prefixes[i]);
	return NULL;
}

static bool matters(const char *name)
{
	if (strncmp(name, "user.", 5) == 0)
		return !overlay_note(name);
	return strcmp(name, "security.capability") == 0 ||
	       strcmp(name, "system.posix_acl_access") == 0 ||
	       strcmp(name, "system.posix_acl_default") == 0;
}

/* What overlayfs writes with the options that cove mounts it with. "overlay." is how it
 * escapes notes that somebody makes inside. */
static const struct note {
	const char *name;
	bool dirs_only, is_y;
} notes[] = {
	{"opaque",   true,  true },
        {"impure",   true,  true },
        {"origin",   false, false},
	{"nlink",    false, false},
        {"uuid",     true,  false},
        {"upper",    false, false},
	{"protattr", false, false},
};

static bool note_is_known(const struct place *p, const char *name, const char *note,
			  bool is_dir)
{
	char value[2];

	if (strncmp(note, "overlay.", 8) == 0)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(notes); i++) {
		if (strcmp(notes[i].name, note) != 0)
			continue;
		if (notes[i].dirs_only && !is_dir)
			return false;
		return !notes[i].is_y ||
		       (get_value(p, name, value, sizeof(value)) == 1 && value[0] == 'y');
	}
	return false;
}

static void look_at(struct attrs *a, const struct place *p, const char *name, bool is_dir)
{
	const char *note = overlay_note(name);

	if (matters(name))
		a->matter = true;
	if (!note)
		return;
	if (!note_is_known(p, name, note, is_dir))
		snprintf(a->forged, sizeof(a->forged), "%.47s", name);
	else if (strcmp(note, "opaque") == 0)
		a->opaque = true;
	else if (strcmp(note, "origin") == 0)
		a->origin = true;
}

/* Most files have a few names at most: the large buffer is for those who try. */
static int names_of(const struct place *p, char small[512], char **ret_large, char **ret,
		    size_t *ret_n)
{
	ssize_t n = list_names(p, small, 512);

	*ret = small;
	if (n == -ERANGE) {
		*ret_large = malloc(LIST_MAX);
		if (!*ret_large)
			return -ENOMEM;
		*ret = *ret_large;
		n = list_names(p, *ret_large, LIST_MAX);
	}
	if (n < 0)
		return (int)n;
	if (n && (*ret)[n - 1]) /* not as the kernel gives it */
		return -EIO;
	*ret_n = (size_t)n;
	return 0;
}

int attrs_look(int dir, const char *name, bool is_dir, struct attrs *ret)
{
	char small[512], *names;
	cleanup_free char *large = NULL;
	struct attrs a = {0};
	struct place p;
	size_t n = 0;
	int r = place_set(&p, dir, name);

	if (r == 0)
		r = names_of(&p, small, &large, &names, &n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i += strlen(names + i) + 1)
		look_at(&a, &p, names + i, is_dir);
	*ret = a;
	return 0;
}

/* ---- comparing ------------------------------------------------------------------ */

struct values {
	struct place at;
	char small[512], *large, *names;
	size_t n;
	char value[VALUE_MAX];
};

static void values_free(struct values *v)
{
	if (v)
		free(v->large);
	free(v);
}
DEFINE_CLEANUP(struct values, values_free)
#define cleanup_values __attribute__((cleanup(values_freep)))

static int values_open(struct values **ret, int dir, const char *name)
{
	cleanup_values struct values *v = calloc(1, sizeof(*v));
	int r = v ? place_set(&v->at, dir, name) : -ENOMEM;

	if (r == 0)
		r = names_of(&v->at, v->small, &v->large, &v->names, &v->n);
	if (r == 0)
		*ret = take_ptr(v);
	return r;
}

static size_t count_that_matter(const struct values *v)
{
	size_t count = 0;

	for (size_t i = 0; i < v->n; i += strlen(v->names + i) + 1)
		count += matters(v->names + i);
	return count;
}

/* Does b have a's value of this name? One that a lost meanwhile differs. */
static int value_same(struct values *a, struct values *b, const char *name)
{
	ssize_t na = get_value(&a->at, name, a->value, sizeof(a->value));
	ssize_t nb = get_value(&b->at, name, b->value, sizeof(b->value));

	if (na == -ENODATA || nb == -ENODATA)
		return 0;
	if (na < 0 || nb < 0)
		return (int)(na < 0 ? na : nb);
	return na == nb && memcmp(a->value, b->value, (size_t)na) == 0;
}

int attrs_same(int a_dir, const char *a_name, int b_dir, const char *b_name)
{
	cleanup_values struct values *a = NULL, *b = NULL;
	int r = values_open(&a, a_dir, a_name);

	if (r == 0)
		r = values_open(&b, b_dir, b_name);
	if (r < 0)
		return r;
	if (count_that_matter(a) != count_that_matter(b))
		return 0;
	r = 1;
	for (size_t i = 0; r == 1 && i < a->n; i += strlen(a->names + i) + 1)
		if (matters(a->names + i))
			r = value_same(a, b, a->names + i);
	return r;
}

/* ---- origin --------------------------------------------------------------------- */

/* The value of user.overlay.origin: version (0), magic (0xfb), length of it all, flags,
 * type of the handle, 16 bytes that name the file system, the handle. */
enum { NOTE_VERSION, NOTE_MAGIC, NOTE_LEN, NOTE_FLAGS, NOTE_TYPE, NOTE_HANDLE = 21 };

size_t origin_noted(int up_dir, const char *up_name, uint8_t key[ORIGIN_MAX])
{
	uint8_t note[256];
	struct place p;
	ssize_t n;

	if (place_set(&p, up_dir, up_name) < 0)
		return 0;
	n = get_value(&p, "user.overlay.origin", note, sizeof(note));
	if (n <= NOTE_HANDLE || n > NOTE_HANDLE + ORIGIN_MAX - 1 || note[NOTE_LEN] != n ||
	    note[NOTE_VERSION] != 0 || note[NOTE_MAGIC] != 0xfb)
		return 0;
	key[0] = note[NOTE_TYPE];
	memcpy(key + 1, note + NOTE_HANDLE, (size_t)n - NOTE_HANDLE);
	return (size_t)n - NOTE_HANDLE + 1;
}

size_t origin_of(int low_dir, const char *low_name, uint8_t key[ORIGIN_MAX])
{
	union {
		struct file_handle h;
		uint8_t room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} u = {.h.handle_bytes = MAX_HANDLE_SZ};
	int mount;

	if (name_to_handle_at(low_dir, low_name, &u.h, &mount, 0) < 0 ||
	    u.h.handle_bytes == 0 || u.h.handle_bytes > ORIGIN_MAX - 1 ||
	    u.h.handle_type < 0 || u.h.handle_type > 255)
		return 0;
	key[0] = (uint8_t)u.h.handle_type;
	memcpy(key + 1, u.room + offsetof(struct file_handle, f_handle),
	       u.h.handle_bytes);
	return u.h.handle_bytes + 1;
}

bool attrs_origin_fits(int up_dir, const char *up_name, int low_dir, const char *low_name)
{
	uint8_t noted[ORIGIN_MAX], is[ORIGIN_MAX];
	size_t n = origin_noted(up_dir, up_name, noted);

	return !n || (origin_of(low_dir, low_name, is) == n && memcmp(noted, is, n) == 0);
}
