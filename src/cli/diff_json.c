/* SPDX-License-Identifier: Apache-2.0 */
/* diff_json - a change as a JSON object. */
#include "cli/diff.h"

#include <sys/stat.h>

static const char *const kind_names[] = {
	[COVE_ADDED] = "added",     [COVE_EDITED] = "edited",
	[COVE_DELETED] = "deleted", [COVE_RENAMED] = "renamed",
	[COVE_RETYPED] = "retyped", [COVE_ATTRS] = "attributes",
};
static const char *const what_names[] = {"content", "mode", "owner",  "target",
					 "xattrs",  "type", "binary", "unreadable"};

/* JSON has no bytes that are no text: such a string is escaped, and its bytes follow as
 * hex under the key with "Hex" behind. */
static void set_text(json_t *o, const char *key, const char *text)
{
	cleanup_free char *safe = NULL, *hex = NULL;
	size_t n = text ? strlen(text) : 0;
	char other[40];
	json_t *value = text ? json_string(text) : NULL;

	if (!text || value) {
		if (value)
			json_object_set_new(o, key, value);
		return;
	}
	safe = cli_escape(text);
	hex = malloc(n * 2 + 1);
	if (!safe || !hex)
		return;
	for (size_t i = 0; i < n; i++)
		snprintf(hex + i * 2, 3, "%02x", (unsigned char)text[i]);
	snprintf(other, sizeof(other), "%sHex", key);
	json_object_set_new(o, key, json_string(safe));
	json_object_set_new(o, other, json_string(hex));
}

static void set_mode(json_t *o, const char *key, uint32_t mode)
{
	char text[16];

	snprintf(text, sizeof(text), "%06o", mode);
	if (mode)
		json_object_set_new(o, key, json_string(text));
}

static void set_size(json_t *o, const char *key, uint32_t mode, uint64_t size)
{
	if (S_ISREG(mode))
		json_object_set_new(o, key, json_integer((json_int_t)size));
}

/* Text in another encoding than UTF-8 is shown with '?' for what JSON cannot hold. */
static void set_diff(json_t *o, const struct cove_change *c)
{
	json_t *value = json_stringn(c->text, c->text_len);
	cleanup_free char *copy = value ? NULL : malloc(c->text_len + 1);

	for (size_t i = 0; copy && i < c->text_len; i++)
		copy[i] = (unsigned char)c->text[i] < 0x80 ? c->text[i] : '?';
	if (copy) {
		value = json_stringn(copy, c->text_len);
		json_object_set_new(o, "lossy", json_true());
	}
	json_object_set_new(o, "diff", value);
}

json_t *diff_json(const struct cove_change *c)
{
	json_t *o = json_object(), *what = json_array();

	if (!o || !what) {
		json_decref(o);
		json_decref(what);
		return NULL;
	}
	if (c->kind < ARRAY_LEN(kind_names) && kind_names[c->kind])
		json_object_set_new(o, "kind", json_string(kind_names[c->kind]));
	for (size_t i = 0; i < ARRAY_LEN(what_names); i++)
		if (c->what & (1u << i))
			json_array_append_new(what, json_string(what_names[i]));
	json_object_set_new(o, "what", what);
	set_text(o, "source", c->source);
	set_text(o, "path", c->path);
	set_text(o, "from", c->from);
	set_mode(o, "oldMode", c->old_mode);
	set_mode(o, "newMode", c->new_mode);
	set_size(o, "oldSize", c->old_mode, c->old_size);
	set_size(o, "newSize", c->new_mode, c->new_size);
	set_text(o, "oldTarget", c->old_target);
	set_text(o, "newTarget", c->new_target);
	set_text(o, "why", c->why);
	json_object_set_new(o, "added", json_integer(c->added));
	json_object_set_new(o, "removed", json_integer(c->removed));
	if (c->text_len)
		set_diff(o, c);
	return o;
}
