/* SPDX-License-Identifier: Apache-2.0 */
/* image_list - what is kept for starts to come: unpacked images and templates of
 * machines; and removing it. */
#include "core/image_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "vm/template.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#define MANIFEST_MAX 65536

/* ---- who uses what -------------------------------------------------------------- */

struct users {
	struct store *st;
	json_t *by_key; /* key of an image: names of sandboxes */
};

static int note_user(void *arg, const char *name)
{
	struct users *u = arg;
	struct cove_error ignored = {0};
	struct image_ref ref = {.digest = ""};
	struct spec s;
	json_t *names;

	if (store_load(u->st, name, &s, &ignored) < 0)
		return 0; /* damaged: it cannot be started either */
	if (s.image.kind == IMAGE_TAR && image_ref_parse(&ref, &s, &ignored) == 0 &&
	    ref.key[0]) {
		names = json_object_get(u->by_key, ref.key);
		if (!names) {
			names = json_array();
			json_object_set_new(u->by_key, ref.key, names);
		}
		json_array_append_new(names, json_string(name));
	}
	spec_clear(&s);
	return 0;
}

static json_t *find_users(struct store *st, struct cove_error *err)
{
	struct users u = {st, json_object()};

	if (!u.by_key) {
		fail_nomem(err);
		return NULL;
	}
	if (store_each(st, note_user, &u, err) < 0) {
		json_decref(u.by_key);
		return NULL;
	}
	return u.by_key;
}

/* ---- the list ------------------------------------------------------------------- */

static bool is_key(const char *name)
{
	return strlen(name) == IMAGE_KEY_HEX - 1 &&
	       strspn(name, "0123456789abcdef") == IMAGE_KEY_HEX - 1;
}

static json_t *describe(int folder, const char *key, const json_t *users)
{
	cleanup_buf struct buf text = BUF_INIT(MANIFEST_MAX);
	char path[IMAGE_KEY_HEX + 32];
	json_t *o, *manifest, *names = json_object_get(users, key);

	snprintf(path, sizeof(path), "%.*s/" IMAGE_MANIFEST, IMAGE_KEY_HEX - 1, key);
	manifest = read_file_at(folder, path, &text) < 0
			   ? NULL
			   : json_loadb(text.data, text.len, 0, NULL);
	o = json_pack("{s:s, s:s}", "key", key, "kind", "tar");
	if (json_is_object(manifest))
		json_object_update(o, manifest);
	else
		json_object_set_new(o, "problem",
				    json_string(IMAGE_MANIFEST " is damaged"));
	json_decref(manifest);
	json_object_del(o, "format");
	json_object_set_new(o, "usedBy", names ? json_incref(names) : json_array());
	return o;
}

static int add_images(struct store *st, json_t *list, struct cove_error *err)
{
	json_t *users = find_users(st, err);
	int folder = users ? image_folder(st, err) : err->code;
	DIR *d = folder < 0 ? NULL : fdopendir(folder);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (is_key(e->d_name))
			json_array_append_new(list, describe(dirfd(d), e->d_name, users));
	json_decref(users);
	if (d)
		closedir(d);
	return folder < 0 ? folder : 0;
}

static int add_templates(struct store *st, json_t *list, struct cove_error *err)
{
	json_t *templates = template_list(st->cache, err), *t;
	size_t i;

	if (!templates)
		return err->code;
	json_array_foreach(templates, i, t)
	{
		json_object_set_new(t, "kind", json_string("template"));
		json_array_append(list, t);
	}
	json_decref(templates);
	return 0;
}

/* By kind, then by age, the newest last; the key makes it certain. */
static int by_age(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	json_int_t tx = json_integer_value(json_object_get(x, "madeAt"));
	json_int_t ty = json_integer_value(json_object_get(y, "madeAt"));
	int r = strcmp(json_string_value(json_object_get(x, "kind")),
		       json_string_value(json_object_get(y, "kind")));

	if (r == 0)
		r = (tx > ty) - (tx < ty);
	return r ? r
		 : strcmp(json_string_value(json_object_get(x, "key")),
			  json_string_value(json_object_get(y, "key")));
}

static json_t *sorted(json_t *list)
{
	size_t n = json_array_size(list);
	cleanup_free json_t **v = calloc(n + 1, sizeof(*v));
	json_t *out = v ? json_array() : NULL;

	for (size_t i = 0; out && i < n; i++)
		v[i] = json_array_get(list, i);
	if (out)
		qsort(v, n, sizeof(*v), by_age);
	for (size_t i = 0; out && i < n; i++)
		json_array_append(out, v[i]);
	json_decref(list);
	return out;
}

int images_list(struct store *st, json_t **ret, struct cove_error *err)
{
	json_t *list = json_array();

	if (!list)
		return fail_nomem(err);
	if (add_images(st, list, err) < 0 || add_templates(st, list, err) < 0) {
		json_decref(list);
		return err->code;
	}
	*ret = sorted(list);
	return *ret ? 0 : fail_nomem(err);
}

/* ---- removing ------------------------------------------------------------------- */

/* The one element whose key begins so; its reference is the list's. */
static const json_t *find_one(const json_t *list, const char *key, struct cove_error *err)
{
	const json_t *found = NULL, *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		const char *is = json_string_value(json_object_get(v, "key"));

		if (!is || strncmp(is, key, strlen(key)) != 0)
			continue;
		if (found) {
			fail(err, COVE_EINVAL, 0, "%s: more than one begins so", key);
			return NULL;
		}
		found = v;
	}
	if (!found || !*key) {
		fail(err, COVE_ENOENT, 0, "no image or template %.80s", key);
		hint(err, "'cove image ls' shows what there is");
		return NULL;
	}
	return found;
}

static int remove_image(struct store *st, const char *key, struct cove_error *err)
{
	cleanup_fd int folder = image_folder(st, err);
	cleanup_fd int lock = folder < 0 ? -1 : image_lock_file(folder, key, err);
	char tmp[IMAGE_KEY_HEX + 16];
	int r;

	if (lock < 0)
		return err->code;
	if (flock(lock, LOCK_EX | LOCK_NB) < 0) {
		fail(err, COVE_ESTATE, 0, "image %s is in use", key);
		return hint(err, "stop what runs with it: 'cove ls'");
	}
	/* Gone for everybody at the rename. */
	snprintf(tmp, sizeof(tmp), IMAGE_OLD "%s", key);
	r = remove_tree_at(folder, tmp);
	if (r == 0 && renameat(folder, key, folder, tmp) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0)
		r = remove_tree_at(folder, tmp);
	return r < 0 ? fail(err, COVE_EIO, -r, "remove image %s", key) : 0;
}

static int remove_one(struct store *st, const json_t *o, struct cove_error *err)
{
	const char *key = json_string_value(json_object_get(o, "key"));
	const char *kind = json_string_value(json_object_get(o, "kind"));
	const char *user =
		json_string_value(json_array_get(json_object_get(o, "usedBy"), 0));

	if (strcmp(kind, "template") == 0)
		return template_remove(st->cache, key, err) < 0 ? err->code : 0;
	if (user) {
		fail(err, COVE_ESTATE, 0, "image %s belongs to sandbox %s", key, user);
		return hint(err, "'cove rm %s' first", user);
	}
	return remove_image(st, key, err);
}

int image_remove(struct store *st, const char *key, struct cove_error *err)
{
	json_t *list = NULL;
	const json_t *found;
	int r = images_list(st, &list, err);

	if (r < 0)
		return r;
	found = find_one(list, key, err);
	r = found ? remove_one(st, found, err) : err->code;
	json_decref(list);
	return r;
}
