/* SPDX-License-Identifier: Apache-2.0 */
#include "core/netfile.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"
#include "policy/policy.h"
#include "spec/node.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

void netfile_clear(struct netfile *f)
{
	free(f->text);
	*f = (struct netfile){0};
}

/* ---- YAML ------------------------------------------------------------------------ */

/* Texts that are plain numbers, true or false mean these, as in JSON. */
static json_t *scalar_json(const struct node *n)
{
	const char *t = n->text;
	size_t digits = strspn(t, "0123456789");

	if (strcmp(t, "true") == 0)
		return json_true();
	if (strcmp(t, "false") == 0)
		return json_false();
	if (digits && digits < 7 && !t[digits])
		return json_integer(strtol(t, NULL, 10));
	return json_string(t);
}

static json_t *node_json(const struct node *n)
{
	json_t *j;

	if (n->type == NODE_SCALAR)
		return scalar_json(n);
	if (n->type != NODE_LIST && n->type != NODE_MAP)
		return json_null();
	j = n->type == NODE_LIST ? json_array() : json_object();
	for (const struct node *c = n->first; j && c; c = c->next) {
		int r = n->type == NODE_LIST
				? json_array_append_new(j, node_json(c))
				: json_object_set_new(j, c->key, node_json(c));

		if (r < 0) {
			json_decref(j);
			return NULL;
		}
	}
	return j;
}

static int read_yaml(struct netfile *f, const struct buf *b, struct cove_error *err)
{
	cleanup_problems struct problems p = {.file = f->name};
	cleanup_tree struct tree tree;
	json_t *j;
	int r;

	tree_read(&tree, b->data ? b->data : "", b->len, &p);
	r = problems_report(&p, NULL, err);
	if (r < 0)
		return r;
	j = tree.root ? node_json(tree.root) : json_object();
	f->text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	if (!f->text)
		return fail_nomem(err);
	f->n = strlen(f->text);
	return 0;
}

/* ---- reading --------------------------------------------------------------------- */

static bool looks_like_json(const struct buf *b)
{
	size_t at = 0;

	while (at < b->len && memchr(" \t\r\n", b->data[at], 4))
		at++;
	return at < b->len && (b->data[at] == '{' || b->data[at] == '[');
}

/* In one piece: it may be large, and somebody waits for it. */
static int read_whole(const char *path, struct buf *b)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	r = st.st_size > (off_t)NETFILE_MAX ? -ENOBUFS
					    : buf_reserve(b, (size_t)st.st_size + 1);
	return r < 0 ? r : read_fd(fd, b);
}

bool netfile_same(const struct netfile *a, const struct netfile *b)
{
	return a->n == b->n && (a->n == 0 || memcmp(a->text, b->text, a->n) == 0);
}

int netfile_read(struct netfile *f, const char *path, struct cove_error *err)
{
	cleanup_buf struct buf b = BUF_INIT(NETFILE_MAX + 4096);
	const char *base = strrchr(path, '/');
	int r = read_whole(path, &b);

	*f = (struct netfile){0};
	if (r == -ENOBUFS)
		return fail(err, COVE_EINVAL, 0, "policy file %s: over %u bytes", path,
			    NETFILE_MAX);
	if (r < 0)
		return fail(err, COVE_EINVAL, -r, "policy file %s", path);
	snprintf(f->name, sizeof(f->name), "%.63s", base ? base + 1 : path);
	if (!looks_like_json(&b))
		return read_yaml(f, &b, err);
	f->n = b.len;
	f->text = buf_steal(&b);
	return 0;
}

int netfile_check(const struct netfile *f, struct cove_error *err)
{
	cleanup_buf struct buf image = BUF_INIT(POLICY_IMAGE_MAX);
	struct policy_source src = {
		.file = f->text, .file_name = f->name, .file_len = f->n};

	return policy_compile(&src, &image, err);
}

json_t *netfile_json(const struct netfile *f)
{
	json_t *all = f->text ? json_loadb(f->text, f->n, 0, NULL) : NULL, *network;

	if (json_is_array(all))
		return json_pack("{s:o}", "rules", all);
	network = json_object_get(all, "network");
	if (network) {
		json_incref(network);
		json_decref(all);
		return network;
	}
	return all ? all : json_object();
}

json_t *netfile_gate(const struct spec *s)
{
	const char *file = s->network.file;
	json_t *gate = NULL, *deny;

	for (size_t i = 0; file && i < s->n_mounts; i++) {
		const char *source = s->mounts[i].source;

		if (!source || !spec_path_below(file, source) ||
		    strcmp(file, source) == 0)
			continue;
		gate = s->gate ? json_deep_copy(s->gate) : json_object();
		deny = json_object_get(gate, "deny");
		if (!json_is_array(deny)) {
			json_t *list = deny ? json_pack("[O]", deny) : json_array();

			json_object_set_new(gate, "deny", list);
			deny = list;
		}
		json_array_append_new(
			deny, json_string(file + strlen(source) + (source[1] ? 1 : 0)));
		return gate;
	}
	return json_incref(s->gate);
}

int netfile_place_ok(const struct spec *s, struct cove_error *err)
{
	const char *file = s->network.file;
	cleanup_free char *real = file ? realpath(file, NULL) : NULL;

	for (size_t i = 0; file && i < s->n_mounts; i++) {
		const struct spec_mount *m = &s->mounts[i];

		if (m->mode != MOUNT_RW || (!spec_path_below(file, m->source) &&
					    !(real && spec_path_below(real, m->source))))
			continue;
		fail(err, COVE_EINVAL, 0, "network.file: %s lies in a rw mount", file);
		return hint(err, "the sandbox could change its own policy: keep the file "
				 "elsewhere, or mount as overlay");
	}
	return 0;
}
