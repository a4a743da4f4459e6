/* SPDX-License-Identifier: Apache-2.0 */
#include "core/netrules.h"

#include "base/io.h"
#include "base/util.h"
#include "policy/policy.h"
#include "spec/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>

static const char *const own_keys[] = {"added", "until"};

int64_t wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int netrules_init(struct netrules *r, struct cove_error *err)
{
	*r = (struct netrules){.rules = json_array(), .next = 1};
	return r->rules ? 0 : fail_nomem(err);
}

void netrules_clear(struct netrules *r)
{
	json_decref(r->rules);
	*r = (struct netrules){0};
}

/* A copy without our own keys. */
static json_t *plain(const json_t *rule)
{
	json_t *copy = NULL;

	/* json_copy() does not change it, and says so only in later versions. */
	memcpy(&copy, &rule, sizeof(copy));
	copy = json_copy(copy);
	for (size_t i = 0; copy && i < ARRAY_LEN(own_keys); i++)
		json_object_del(copy, own_keys[i]);
	return copy;
}

/* ---- what a rule may be ---------------------------------------------------------- */

int netrule_check(const json_t *rule, const char *what, struct cove_error *err)
{
	static const char front[] = "network: live[0]: ";
	cleanup_buf struct buf image = BUF_INIT(POLICY_IMAGE_MAX);
	const json_t *id = json_object_get(rule, "id");
	struct policy_source src = {0};
	json_t *live = json_array(), *one = NULL;
	const char *why;
	int r;

	memcpy(&one, &rule, sizeof(one)); /* to count the reference; it is not changed */
	if (!live || json_array_append(live, one) < 0) {
		json_decref(live);
		return fail_nomem(err);
	}
	src.live = live;
	r = policy_compile(&src, &image, err);
	json_decref(live);
	if (r < 0) {
		if (strncmp(err->msg, front, strlen(front)) == 0)
			memmove(err->msg, err->msg + strlen(front),
				strlen(err->msg + strlen(front)) + 1);
		return wrap(err, "%s", what);
	}
	why = id ? check_name(json_string_value(id)) : NULL;
	return why ? fail(err, COVE_EINVAL, 0, "%s: id '%.80s' %s", what,
			  json_string_value(id), why)
		   : 0;
}

/* ---- on disk --------------------------------------------------------------------- */

static int check_all(const json_t *rules, struct cove_error *err)
{
	char what[64];
	int r = 0;

	if (!json_is_array(rules) || json_array_size(rules) > NETRULES_MAX)
		return fail(err, COVE_EDAMAGED, 0, NETRULES_FILE ": no list of rules");
	for (size_t i = 0; r == 0 && i < json_array_size(rules); i++) {
		json_t *rule = json_array_get(rules, i);
		json_t *copy = json_is_object(rule) ? plain(rule) : json_incref(rule);

		snprintf(what, sizeof(what), NETRULES_FILE ": rules[%zu]", i);
		r = copy ? netrule_check(copy, what, err) : fail_nomem(err);
		if (r == 0 && !json_is_string(json_object_get(copy, "id")))
			r = fail(err, COVE_EDAMAGED, 0, "%s: no id", what);
		json_decref(copy);
	}
	if (r == COVE_EINVAL)
		r = err->code = COVE_EDAMAGED;
	return r;
}

int netrules_load(struct netrules *r, int dir, struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(NETRULES_TEXT_MAX);
	json_t *j, *rules;
	int e = read_file_at(dir, NETRULES_FILE, &text);

	if (netrules_init(r, err) < 0)
		return err->code;
	if (e == -ENOENT)
		return 0;
	if (e < 0) {
		netrules_clear(r);
		return fail(err, COVE_EIO, -e, NETRULES_FILE);
	}
	j = json_loadb(text.data ? text.data : "", text.len, JSON_REJECT_DUPLICATES,
		       NULL);
	rules = json_object_get(j, "rules");
	e = check_all(rules, err);
	if (e == 0) {
		json_decref(r->rules);
		r->rules = json_incref(rules);
		r->next = (uint64_t)json_integer_value(json_object_get(j, "next"));
	} else {
		netrules_clear(r);
		hint(err, "remove the file, and give the rules again");
	}
	json_decref(j);
	return e;
}

int netrules_save(const struct netrules *r, int dir, struct cove_error *err)
{
	json_t *j =
		json_pack("{s:I, s:O}", "next", (json_int_t)r->next, "rules", r->rules);
	cleanup_free char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
	int e;

	json_decref(j);
	if (!text)
		return fail_nomem(err);
	e = write_file_atomic(dir, NETRULES_FILE, text, strlen(text), 0600, 1);
	return e < 0 ? fail(err, COVE_EIO, -e, NETRULES_FILE) : 0;
}

/* ---- changes --------------------------------------------------------------------- */

static const char *id_of(const json_t *rule)
{
	const char *id = json_string_value(json_object_get(rule, "id"));

	return id ? id : "";
}

static size_t find(const struct netrules *r, const char *id)
{
	size_t i = 0, n = json_array_size(r->rules);

	while (i < n && strcmp(id_of(json_array_get(r->rules, i)), id) != 0)
		i++;
	return i;
}

/* Do they say the same, whatever they are called? */
static bool same(const json_t *a, const json_t *b)
{
	json_t *x = plain(a), *y = plain(b);
	bool equal;

	json_object_del(x, "id");
	json_object_del(y, "id");
	equal = x && y && json_equal(x, y);
	json_decref(x);
	json_decref(y);
	return equal;
}

static void drop_same(struct netrules *r, const json_t *rule)
{
	for (size_t i = json_array_size(r->rules); i-- > 0;)
		if (same(json_array_get(r->rules, i), rule))
			json_array_remove(r->rules, i);
}

int netrules_add(struct netrules *r, json_t *rule, int64_t until_ms,
		 char ret_id[NETRULES_ID], struct cove_error *err)
{
	char id[NETRULES_ID];
	bool named = json_object_get(rule, "id");
	size_t taken;

	drop_same(r, rule);
	snprintf(id, sizeof(id), "%s", id_of(rule));
	while (!named &&
	       (snprintf(id, sizeof(id), "live-%llu", (unsigned long long)r->next++),
		find(r, id) < json_array_size(r->rules)))
		;
	taken = find(r, id);
	if (taken < json_array_size(r->rules)) {
		json_decref(rule);
		fail(err, COVE_EEXIST, 0, "there is a rule '%s' already", id);
		return hint(err, "'cove net rm NAME %s' takes it back", id);
	}
	if (json_array_size(r->rules) >= NETRULES_MAX) {
		json_decref(rule);
		fail(err, COVE_ESTATE, 0, "there are %d live rules already",
		     NETRULES_MAX);
		return hint(err, "put them into a policy file: --policy FILE");
	}
	json_object_set_new(rule, "id", json_string(id));
	json_object_set_new(rule, "added", json_integer(wall_ms()));
	if (until_ms)
		json_object_set_new(rule, "until", json_integer(until_ms));
	if (json_array_insert_new(r->rules, 0, rule) < 0)
		return fail_nomem(err);
	snprintf(ret_id, NETRULES_ID, "%s", id);
	return 0;
}

int netrules_remove(struct netrules *r, const char *id, struct cove_error *err)
{
	size_t i = find(r, id);

	if (i < json_array_size(r->rules))
		return json_array_remove(r->rules, i) < 0 ? fail_nomem(err) : 0;
	fail(err, COVE_ENOENT, 0, "no live rule '%.80s'", id);
	return hint(err, "'cove net ls NAME' lists them; rules of the spec are changed "
			 "with 'cove edit'");
}

bool netrules_expire(struct netrules *r, int64_t now_ms, int64_t *ret_next)
{
	bool any = false;

	*ret_next = 0;
	for (size_t i = json_array_size(r->rules); i-- > 0;) {
		int64_t until = json_integer_value(
			json_object_get(json_array_get(r->rules, i), "until"));

		if (!until)
			continue;
		if (until <= now_ms) {
			json_array_remove(r->rules, i);
			any = true;
		} else if (!*ret_next || until < *ret_next) {
			*ret_next = until;
		}
	}
	return any;
}

json_t *netrules_active(const struct netrules *r)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < json_array_size(r->rules); i++)
		json_array_append_new(list, plain(json_array_get(r->rules, i)));
	return list;
}
