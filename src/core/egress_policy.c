/* SPDX-License-Identifier: Apache-2.0 */
/* egress_policy - a spec, live rules and a policy file as one image, and what it says. */
#include "core/egress_impl.h"

#include "base/util.h"
#include "core/netfile.h"

bool egress_needed(const struct spec *s)
{
	return s->network.mode != NET_NONE;
}

/* Mode none is no network, whatever rules there are; they count when it changes. */
static int only_none(uint64_t generation, struct buf *image, struct cove_error *err)
{
	json_t *none = json_pack("{s:s}", "mode", "none");
	struct policy_source src = {.network = none, .generation = generation};
	struct policy *p;
	bool moot;
	int r;

	if (policy_open(&p, image->data, image->len, err) < 0) {
		json_decref(none);
		return err->code;
	}
	moot = policy_get_mode(p) == POLICY_NONE && policy_rules(p);
	policy_close(p);
	if (moot)
		buf_clear(image);
	r = moot ? policy_compile(&src, image, err) : 0;
	json_decref(none);
	return r;
}

int egress_compile(const struct spec *s, const json_t *live, const struct netfile *file,
		   uint64_t generation, struct buf *image, struct cove_error *err)
{
	json_t *all = spec_json(s, true);
	struct policy_source src = {.network = json_object_get(all, "network"),
				    .secrets = json_object_get(all, "secrets"),
				    .live = live,
				    .generation = generation};
	int r;

	if (file && file->text) {
		src.file = file->text;
		src.file_len = file->n;
		src.file_name = file->name;
	}
	r = all ? policy_compile(&src, image, err) : fail_nomem(err);
	json_decref(all);
	if (r == 0 && (s->network.mode == NET_NONE || src.file))
		r = only_none(generation, image, err);
	return r;
}

int egress_look(const struct buf *image, struct egress_change *c, struct cove_error *err)
{
	struct policy *p;

	if (policy_open(&p, image->data, image->len, err) < 0)
		return err->code;
	c->rules = policy_rules(p);
	c->mode = policy_get_mode(p);
	c->ask = policy_asks(p);
	policy_close(p);
	return 0;
}

int egress_foresee(const struct spec *s, const json_t *live, const struct netfile *file,
		   struct egress_change *ret, struct cove_error *err)
{
	cleanup_buf struct buf image = BUF_INIT(POLICY_IMAGE_MAX);

	if (egress_compile(s, live, file, 1, &image, err) < 0)
		return err->code;
	return egress_look(&image, ret, err);
}

bool egress_opens(const struct spec *s, const json_t *live, const struct netfile *file)
{
	cleanup_buf struct buf image = BUF_INIT(POLICY_IMAGE_MAX);
	struct cove_error ignored = {0};
	struct policy *p;
	bool opens;

	if (egress_compile(s, live, file, 1, &image, &ignored) < 0 ||
	    policy_open(&p, image.data, image.len, &ignored) < 0)
		return true; /* the start will say what is wrong */
	opens = policy_opens(p);
	policy_close(p);
	return opens;
}
