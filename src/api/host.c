/* SPDX-License-Identifier: Apache-2.0 */
/* host - what this build has and what this host can do. */
#include "api/handle.h"

#include "backend/backend.h"
#include "base/util.h"
#include "core/box.h"
#include "core/store.h"
#include "os/landlock.h"
#include "os/seccomp.h"

#include <stdio.h>
#include <sys/utsname.h>

const char *cove_version(void)
{
	return COVE_VERSION;
}

static json_t *backend_names(void)
{
	json_t *a = json_array();

	for (const struct backend *const *b = backend_list(); a && *b; b++)
		json_array_append_new(a, json_string((*b)->name));
	return a;
}

int cove_version_json(char **ret, struct cove_error *err)
{
	return json_out(
		json_pack(
			"{s:s, s:i, s:o, s:{s:[s,s,s], s:[s,s,s,s], s:[s,s,s,s,s], s:s}}",
			"version", COVE_VERSION, "abi", COVE_ABI, "backends",
			backend_names(), "features", "images", "host", "rootfs", "tar",
			"network", "none", "allowlist", "open", "learn", "mounts",
			"overlay", "ro", "rw", "copy", "volume", "seccompFilter",
			seccomp_guest_digest()),
		ret, ERR(err));
}

/* The proof of the pudding: a sandbox is started and asked. */
static bool trial(char *detail, size_t size, char *fix, size_t fix_size)
{
	static const char *const argv[] = {"/bin/true", NULL};
	struct cove_exec_options o = {.size = sizeof(o), .argv = argv};
	struct cove_status status = {.size = sizeof(status)};
	struct cove_spec *spec = NULL;
	struct cove *box = NULL;
	struct cove_proc *p = NULL;
	struct cove_error err = {0};
	int64_t before = now_ms();
	bool ok = cove_spec_new(&spec, &err) == 0 &&
		  cove_start(&box, NULL, spec, NULL, &err) == 0 &&
		  cove_exec(box, &o, &p, &err) == 0 &&
		  cove_wait(p, 10000, &status, &err) == 0 && status.shell == 0;

	if (ok)
		snprintf(detail, size, "started and ran /bin/true in %d ms",
			 (int)(now_ms() - before));
	else
		snprintf(detail, size, "%s", err.msg[0] ? err.msg : "the trial failed");
	snprintf(fix, fix_size, "%s", err.hint[0] ? err.hint : "see the checks above");
	cove_proc_free(p);
	cove_free(box);
	cove_spec_free(spec);
	return ok;
}

static json_t *trial_check(bool *ret_ok)
{
	char detail[700], fix[400];
	json_t *o;

	*ret_ok = trial(detail, sizeof(detail), fix, sizeof(fix));
	o = json_pack("{s:s, s:s, s:b, s:s}", "name", "trial", "backend", "process", "ok",
		      *ret_ok, "detail", detail);
	if (o && !*ret_ok)
		json_object_set_new(o, "fix", json_string(fix));
	return o;
}

int cove_doctor_json(char **ret, int *ret_usable, struct cove_error *err)
{
	json_t *checks = json_array();
	struct cove_error why = {0};
	struct utsname u = {0};
	bool ok = false, vm = false;
	struct store st;
	int r;

	err = ERR(err);
	if (!checks)
		return fail_nomem(err);
	uname(&u);
	r = store_open(&st, &why);
	if (r == 0) {
		box_probe(&backend_process, &st, checks, &why);
		json_array_append_new(checks, trial_check(&ok));
		why = (struct cove_error){0};
		vm = box_probe(&backend_vm, &st, checks, &why) == 0;
		store_close(&st);
	}
	r = json_out(json_pack("{s:s, s:i, s:{s:{s:b}, s:{s:b}}, s:o}", "kernel",
			       u.release, "landlockAbi", landlock_abi(), "backends",
			       "process", "usable", ok, "vm", "usable", vm, "checks",
			       checks),
		     ret, err);
	if (r == 0 && ret_usable)
		*ret_usable = ok;
	return r;
}
