/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_config - check a configuration file, write the first one, trust a project's. */
#include "cli/cli.h"
#include "cli/path.h"
#include "cli/sha256.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define FILE_MAX (1u << 20) /* the library reads no larger one either */

static const char template[] =
	"# cove: configuration of this user. Every key here is optional; the values "
	"shown are\n"
	"# the defaults. 'cove config check' checks this file, cove(1) and cove-spec(5) "
	"explain it.\n"
	"\n"
	"# What every sandbox starts from. Flags and --spec win over this.\n"
	"# defaults:\n"
	"#   backend: auto\n"
	"#   network: { mode: none }\n"
	"#   resources: { memoryMiB: 2048, cpus: 2, pids: 512 }\n"
	"#   exec: { env: { EDITOR: vi } }\n"
	"\n"
	"# Your own names for sets of keys: cove run --profile strict -- CMD\n"
	"# profiles:\n"
	"#   strict:\n"
	"#     network: { mode: none }\n"
	"#     resources: { memoryMiB: 1024, pids: 128, ttlSeconds: 3600 }\n";

static int check(const struct args *a, const char *path)
{
	cleanup_string char *problems = NULL;
	struct cove_error err = {0};
	int r = cove_config_check(path, &problems, &err);

	if (problems && *problems) {
		cli_lines("config", problems);
		return EXIT_COVE;
	}
	if (r < 0)
		return cli_fail("config", &err);
	if (!cli_has(a, F_QUIET))
		printf("%s: ok\n", path);
	return cli_flush("config", 0);
}

/* The parent directories of path, each for this user alone. */
static int make_parents(char *path)
{
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST) {
			*p = '/';
			return -errno;
		}
		*p = '/';
	}
	return 0;
}

static int init(const struct args *a)
{
	cleanup_free char *path = cli_config_path();
	cleanup_fd int fd = -1;
	int r;

	if (!path)
		return cli_failf("config", "set HOME", "init: no home directory");
	r = make_parents(path);
	fd = r < 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 && r == 0 && errno == EEXIST)
		return cli_failf("config", "edit it, or move it away first",
				 "%s: exists already; nothing was changed", path);
	if (fd < 0)
		return cli_failf("config", NULL, "%s: %s", path,
				 strerror(r < 0 ? -r : errno));
	if (write(fd, template, sizeof(template) - 1) != (ssize_t)sizeof(template) - 1) {
		r = errno;
		unlink(path);
		return cli_failf("config", NULL, "%s: %s", path, strerror(r));
	}
	if (!cli_has(a, F_QUIET))
		printf("%s: written\n", path);
	return cli_flush("config", 0);
}

/* The whole file in a new buffer; -errno. */
static ssize_t read_whole(const char *path, char **ret)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *data = fd < 0 ? NULL : malloc(FILE_MAX + 1);
	size_t n = 0;
	ssize_t got;

	if (!data)
		return -errno;
	while ((got = read(fd, data + n, FILE_MAX + 1 - n)) > 0)
		n += (size_t)got;
	if (got < 0 || n > FILE_MAX) {
		got = got < 0 ? -errno : -EFBIG;
		free(data);
		return got;
	}
	*ret = data;
	return (ssize_t)n;
}

static int trust(const struct args *a, const char *file, bool yes)
{
	cleanup_free char *path = realpath(file, NULL);
	cleanup_free char *data = NULL;
	struct cove_error err = {0};
	ssize_t n = path ? read_whole(path, &data) : -errno;
	char hash[65];

	if (n < 0 && yes)
		return cli_failf("config", NULL, "%s: %s", file, strerror((int)-n));
	/* A file that is gone may still be on the list. */
	if (cove_config_trust(path ? path : file, yes, &err) < 0)
		return cli_fail("config", &err);
	if (cli_has(a, F_QUIET))
		return 0;
	if (n >= 0)
		cli_sha256_hex(data, (size_t)n, hash);
	printf("%s: %s%s%s\n", path ? path : file,
	       yes ? "trusted" : "not trusted any more", n >= 0 ? ", sha256 " : "",
	       n >= 0 ? hash : "");
	return cli_flush("config", 0);
}

int cmd_config(const struct args *a)
{
	static const char *const verbs[] = {"check", "init", "trust", "untrust"};
	const char *verb = a->words[0], *file = a->words[1], *near;

	if (strcmp(verb, "check") == 0 && !file)
		return cli_usage(a->cmd, "check: no file");
	if (strcmp(verb, "check") == 0)
		return check(a, file);
	if (strcmp(verb, "init") == 0 && file)
		return cli_usage(a->cmd, "init: takes no file");
	if (strcmp(verb, "init") == 0)
		return init(a);
	if (strcmp(verb, "trust") == 0 || strcmp(verb, "untrust") == 0)
		return trust(a, file ? file : "cove.yaml", *verb == 't');
	near = cli_nearest(verb, verbs, ARRAY_LEN(verbs));
	return near ? cli_usage(a->cmd, "%s: did you mean '%s'?", verb, near)
		    : cli_usage(a->cmd, "%s: not check, init, trust or untrust", verb);
}
