/* SPDX-License-Identifier: Apache-2.0 */
/* embed.c - a sandbox from C: run a command on the current directory, collect its output.
 */
#include <cove.h>
#include <stdio.h>
#include <string.h>

static void collect(void *arg, int fd, const void *data, size_t n)
{
	(void)arg;
	fwrite(data, 1, n, fd == 2 ? stderr : stdout);
}

static int failed(const char *what, const struct cove_error *err)
{
	fprintf(stderr, "embed: %s: %s\n", what, err->msg);
	if (err->hint[0])
		fprintf(stderr, "hint: %s\n", err->hint);
	return 125;
}

int main(int argc, char **argv)
{
	const char *fallback[] = {"sh", "-c", "echo hello from $(hostname), uid $(id -u)",
				  NULL};
	struct cove_error err;
	struct cove_spec *spec = NULL;
	struct cove *box = NULL;
	struct cove_proc *proc = NULL;
	struct cove_exec_options exec;
	struct cove_status status;

	memset(&exec, 0, sizeof(exec));
	memset(&status, 0, sizeof(status));
	exec.size = sizeof(exec);
	status.size = sizeof(status);
	exec.argv = argc > 1 ? (const char *const *)(argv + 1) : fallback;
	exec.output = collect;

	if (cove_spec_new(&spec, &err) < 0)
		return failed("spec", &err);
	if (cove_spec_set(spec, "mounts", ".:overlay", &err) < 0 ||
	    cove_start(&box, NULL, spec, NULL, &err) < 0 ||
	    cove_exec(box, &exec, &proc, &err) < 0 ||
	    cove_wait(proc, -1, &status, &err) < 0) {
		cove_proc_free(proc);
		cove_free(box);
		cove_spec_free(spec);
		return failed("sandbox", &err);
	}
	cove_proc_free(proc);
	cove_free(box);
	cove_spec_free(spec);
	return status.shell;
}
