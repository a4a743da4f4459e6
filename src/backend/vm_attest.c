/* SPDX-License-Identifier: Apache-2.0 */
/* vm_attest - what holds while a machine runs: limits, stopping it, and the evidence. */
#include "backend/vm_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

int vm_freeze(struct place *p, bool on, struct cove_error *err)
{
	return qmp_call(&p->vm->qmp, on ? "stop" : "cont", NULL, NULL, err);
}

int vm_set_limits(struct place *p, const struct spec *s, bool degraded,
		  struct cove_error *err)
{
	(void)p;
	(void)s;
	(void)degraded;
	fail(err, COVE_ESTATE, 0, "limits of a machine cannot change while it runs");
	return hint(err, "stop it, change it, start it");
}

static int add_item(json_t *items, const char *item, const char *required,
		    const char *actual, bool ok)
{
	json_array_append_new(items,
			      json_pack("{s:s, s:s, s:s, s:b}", "item", item, "required",
					required, "actual", actual, "ok", ok));
	return ok ? 0 : 1;
}

int vm_attest(struct place *p, const struct place_config *c, json_t *items,
	      struct cove_error *err)
{
	const struct vm_host *h = &p->vm->host;
	char text[300];
	int bad = 0;

	(void)c;
	(void)err;
	bad += add_item(items, "isolation", "a kernel of its own",
			h->kvm ? "hardware virtualization (KVM)" : "emulated (TCG)",
			true);
	snprintf(text, sizeof(text), "QEMU %s", h->version);
	bad += add_item(items, "monitor", "QEMU, confined", text, true);
	bad += add_item(items, "kernel", h->kernel.name, h->kernel.name, true);
	return bad;
}
