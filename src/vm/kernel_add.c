/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_add - a kernel of the user's own. */
#include "vm/kernel_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "os/treewalk.h"
#include "vm/kernel_unpack.h"

#include <fcntl.h>
#include <stdio.h>

#define BUILTIN_MAX (4u << 20)

/* ---- modules in a directory ---------------------------------------------------- */

struct tree_module {
	char name[MODULE_NAME_MAX + 1];
	enum module_packing packing;
	char *path; /* below the directory */
};

struct tree {
	int dir;
	struct tree_module *v;
	size_t n;
	struct buf builtin;
};

static void tree_clear(struct tree *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].path);
	free(t->v);
	buf_clear(&t->builtin);
	close_fd(&t->dir);
}
#define cleanup_tree __attribute__((cleanup(tree_clear)))

static int note_file(void *arg, const struct tree_entry *e)
{
	struct tree_module m = {0}, *v;
	struct tree *t = arg;

	if (!S_ISREG(e->st->st_mode))
		return 0;
	if (strcmp(e->name, "modules.builtin") == 0 && t->builtin.len == 0)
		return read_file_at(e->dir, e->name, &t->builtin);
	if (!module_name(e->path, e->path_len, m.name, &m.packing))
		return 0;
	v = reallocarray(t->v, t->n + 1, sizeof(*v));
	m.path = v ? strdup(e->path) : NULL;
	if (v)
		t->v = v;
	if (!m.path)
		return -ENOMEM;
	t->v[t->n++] = m;
	return 0;
}

static int note_nothing(void *arg, const struct tree_entry *e)
{
	(void)arg;
	(void)e;
	return 0;
}

static int tree_open(struct tree *t, const char *path, struct cove_error *err)
{
	static const struct tree_ops ops = {
		.enter = note_nothing, .leave = note_nothing, .file = note_file};
	cleanup_buf struct buf where = BUF_INIT(TREE_PATH_MAX);
	int r;

	t->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->dir < 0)
		return fail(err, COVE_EIO, errno, "%s", path);
	r = tree_walk(t->dir, &ops, t, &where);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s/%s", path,
			    where.data ? where.data : "");
	if (t->n == 0)
		return fail(err, COVE_EINVAL, 0, "%s: no modules (*.ko) in there", path);
	return 0;
}

static int read_module(void *arg, const char *name, struct buf *out,
		       struct cove_error *err)
{
	cleanup_buf struct buf packed = BUF_INIT(MODULE_MAX);
	const struct tree_module *m = NULL;
	struct tree *t = arg;
	int r;

	for (size_t i = 0; i < t->n && !m; i++)
		m = strcmp(t->v[i].name, name) == 0 ? &t->v[i] : NULL;
	if (!m)
		return 0;
	r = read_file_at(t->dir, m->path, m->packing == MODULE_PLAIN ? out : &packed);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s", m->path);
	if (m->packing == MODULE_PLAIN)
		return 1;
	r = unpack_bytes(m->packing, packed.data, packed.len, out, err);
	return r < 0 ? r : 1;
}

static bool is_built_in(void *arg, const char *name)
{
	const struct tree *t = arg;

	return t->builtin.len && module_listed(t->builtin.data, t->builtin.len, name);
}

/* ---- does it fit? -------------------------------------------------------------- */

/* "6.1.0-54-cloud-amd64 SMP preempt mod_unload": a kernel loads no others than its own.
 */
static int check_versions(const struct module_set *set, const char *version,
			  struct cove_error *err)
{
	const char *info, *magic;
	size_t len, pos = 0;

	if (set->n == 0 || !version[0] ||
	    modinfo_find(set->v[0].content.data, set->v[0].content.len, &info, &len) < 0)
		return 0;
	magic = modinfo_next(info, len, &pos, "vermagic");
	if (!magic || (strncmp(magic, version, strlen(version)) == 0 &&
		       (magic[strlen(version)] == ' ' || !magic[strlen(version)])))
		return 0;
	return fail(err, COVE_EINVAL, 0, "the image is version %s, the modules are %.*s",
		    version, (int)strcspn(magic, " "), magic);
}

static int add_modules(struct stage *s, const char *path, struct cove_error *err)
{
	cleanup_tree struct tree t = {.dir = -1, .builtin = BUF_INIT(BUILTIN_MAX)};
	struct module_source source = {
		.read = read_module, .built_in = is_built_in, .arg = &t};
	struct module_set set = {0};
	int r;

	if (tree_open(&t, path, err) < 0 || modules_collect(&set, &source, err) < 0)
		return err->code;
	r = check_versions(&set, s->record.version, err);
	if (r == 0)
		r = stage_put_modules(s, &set, err);
	module_set_clear(&set);
	return r;
}

static int add_image(struct stage *s, const char *path, struct cove_error *err)
{
	cleanup_buf struct buf image = BUF_INIT(KERNEL_IMAGE_MAX);
	int r = read_file_at(AT_FDCWD, path, &image);

	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s", path);
	if (!image.len || !image_is_one((const uint8_t *)image.data, image.len))
		return fail(err, COVE_EINVAL, 0,
			    "%s: not the image of a kernel (bzImage or ELF)", path);
	image_version((const uint8_t *)image.data, image.len, s->record.version);
	return stage_put(s, IMAGE_NAME, image.data, image.len, err);
}

int kernel_add(const char *dir, const char *name, const char *image, const char *modules,
	       struct cove_error *err)
{
	cleanup_kernels struct kernels k = {.dir = -1, .lock = -1};
	cleanup_stage struct stage s = {.dir = -1};

	if (!kernel_name_ok(name))
		return fail(err, COVE_EINVAL, 0, "'%.60s' is not a name for a kernel",
			    name);
	if (kernels_lock(&k, dir, true, NULL, err) < 0)
		return err->code;
	if (faccessat(k.dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		fail(err, COVE_EEXIST, 0, "there is a kernel %s already", name);
		return hint(err, "remove it with 'cove kernel rm %s'", name);
	}
	if (stage_begin(&s, &k, err) < 0 || add_image(&s, image, err) < 0 ||
	    (modules && add_modules(&s, modules, err) < 0))
		return err->code;
	s.record.origin = ORIGIN_OWN;
	s.record.built_in = !modules;
	snprintf(s.record.source, sizeof(s.record.source), "%.*s", KERNEL_SOURCE_MAX,
		 image);
	return stage_commit(&s, name, err);
}
