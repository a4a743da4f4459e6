/* SPDX-License-Identifier: Apache-2.0 */
/*
 * landlocked - runs a program under a Landlock ruleset like that of a sandbox, and
 * nothing else: no namespace, no seccomp filter. What cove costs beyond it is cove's own.
 *
 * usage: landlocked PROGRAM [ARG...]
 */
#include "bench.h"
#include "os/landlock.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static const struct {
	const char *path;
	uint64_t rights;
} grants[] = {
	{"/",        LL_READ_DIR					 },
	{"/usr",     LL_READ_EXEC					},
	{"/bin",     LL_READ_EXEC					},
	{"/lib",     LL_READ_EXEC					},
	{"/lib64",   LL_READ_EXEC					},
	{"/etc",     LL_READ					     },
	{"/proc",    LL_READ | LL_WRITE_FILE | LL_TRUNCATE               },
	{"/dev",     LL_READ | LL_WRITE_FILE | LL_TRUNCATE | LL_IOCTL_DEV},
	{"/dev/shm", LL_FULL					     },
	{"/tmp",     LL_FULL					     },
	{"/run",     LL_FULL					     },
	{"/var/tmp", LL_FULL					     },
	{".",        LL_FULL					     },
};

static void allow(int ruleset, const struct landlock_attr *a, const char *path,
		  uint64_t rights)
{
	struct landlock_path_rule rule = {.parent_fd = open(path, O_PATH | O_CLOEXEC)};
	struct stat st;

	if (rule.parent_fd < 0)
		return; /* not every host has all of them */
	if (fstat(rule.parent_fd, &st) < 0)
		die(path);
	rule.allowed = landlock_mask(a, rights, S_ISDIR(st.st_mode));
	if (syscall(SYS_landlock_add_rule, ruleset, 1, &rule, 0) < 0)
		die(path);
	close(rule.parent_fd);
}

int main(int argc, char **argv)
{
	struct landlock_attr a;
	int abi = landlock_abi(), fd;

	if (argc < 2)
		die("usage: landlocked PROGRAM [ARG...]");
	landlock_handled(abi, true, &a);
	fd = landlock_create(abi, &a);
	if (fd < 0)
		die("Landlock");
	for (size_t i = 0; i < sizeof(grants) / sizeof(grants[0]); i++)
		allow(fd, &a, grants[i].path, grants[i].rights);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		die("landlock_restrict_self");
	execvp(argv[1], argv + 1);
	die(argv[1]);
}
