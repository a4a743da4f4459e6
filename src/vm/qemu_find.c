/* SPDX-License-Identifier: Apache-2.0 */
/* qemu_find - which QEMU this host has, without starting it every time. */
#include "vm/qemu.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define INSTALL_HINT "apt-get install --no-install-recommends qemu-system-x86"
#define MAJOR_MIN 6 /* the first whose microvm has what we use */

int qemu_find(char path[4096], struct cove_error *err)
{
	static const char *const places[] = {
		"/usr/bin/qemu-system-x86_64",
		"/usr/local/bin/qemu-system-x86_64",
		"/usr/libexec/qemu-kvm",
	};
	const char *own = secure_getenv("COVE_QEMU");

	if (own && access(own, X_OK) == 0) {
		snprintf(path, 4096, "%s", own);
		return 0;
	}
	for (size_t i = 0; !own && i < ARRAY_LEN(places); i++)
		if (access(places[i], X_OK) == 0) {
			snprintf(path, 4096, "%s", places[i]);
			return 0;
		}
	fail(err, COVE_EUNSUPPORTED, 0, "QEMU: %s not found",
	     own ? own : "qemu-system-x86_64");
	return hint(err, "%s", own ? "COVE_QEMU names it" : INSTALL_HINT);
}

int qemu_append(char append[QEMU_APPEND_MAX], struct cove_error *err)
{
	const char *own = secure_getenv("COVE_KERNEL_ARGS");

	append[0] = '\0';
	if (!own)
		return 0;
	for (const char *p = own; *p; p++)
		if (*p < ' ' || *p > '~')
			return fail(err, COVE_EINVAL, 0,
				    "COVE_KERNEL_ARGS: only printable characters");
	if (strlen(own) >= QEMU_APPEND_MAX)
		return fail(err, COVE_EINVAL, 0, "COVE_KERNEL_ARGS: more than %d bytes",
			    QEMU_APPEND_MAX - 1);
	snprintf(append, QEMU_APPEND_MAX, "%s", own);
	return 0;
}

/* The first line of --version: "QEMU emulator version 7.2.22 (Debian ...)". */
static int ask(const char *path, char *out, size_t size)
{
	char *argv[] = {(char *)(uintptr_t)path, (char *)(uintptr_t) "--version", NULL};
	char *envp[] = {NULL};
	posix_spawn_file_actions_t files;
	int fds[2], status = -1;
	ssize_t n = -1;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, fds[1], 1);
	if (posix_spawn(&pid, path, &files, NULL, argv, envp) == 0) {
		close_fd(&fds[1]);
		n = read(fds[0], out, size - 1);
		close_fd(&fds[0]);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	posix_spawn_file_actions_destroy(&files);
	close_fd(&fds[0]);
	close_fd(&fds[1]);
	if (n <= 0)
		return -EIO;
	out[n] = '\0';
	out[strcspn(out, "\n")] = '\0';
	return 0;
}

static int parse(const char *path, const char *line, char *version,
		 struct cove_error *err)
{
	static const char intro[] = "QEMU emulator version ";
	const char *at = strstr(line, intro);

	if (!at)
		return fail(err, COVE_EUNSUPPORTED, 0, "QEMU: %s is none", path);
	snprintf(version, QEMU_VERSION_MAX, "%s", at + strlen(intro));
	if (strtoul(version, NULL, 10) < MAJOR_MIN) {
		fail(err, COVE_EUNSUPPORTED, 0, "QEMU: version %s is too old", version);
		return hint(err, "version %d or newer is needed", MAJOR_MIN);
	}
	return 0;
}

/* Starting it takes 20 ms; the answer is kept under the identity of the file. */
int qemu_version(const char *path, const char *cache_dir, char version[QEMU_VERSION_MAX],
		 struct cove_error *err)
{
	char name[64], path_kept[4200], line[256];
	cleanup_buf struct buf kept = BUF_INIT(sizeof(line));
	struct stat st;

	if (stat(path, &st) < 0)
		return fail(err, COVE_EIO, errno, "QEMU: %s", path);
	snprintf(name, sizeof(name), "qemu-%llx-%llx-%llx", (unsigned long long)st.st_ino,
		 (unsigned long long)st.st_size, (unsigned long long)st.st_mtime);
	snprintf(path_kept, sizeof(path_kept), "%s/%s", cache_dir, name);
	if (read_file_at(AT_FDCWD, path_kept, &kept) == 0 && kept.len)
		return parse(path, kept.data, version, err);
	if (ask(path, line, sizeof(line)) < 0)
		return fail(err, COVE_EUNSUPPORTED, 0, "QEMU: %s does not start", path);
	if (parse(path, line, version, err) < 0)
		return err->code;
	/* or ask again next time */
	write_file_in(cache_dir, name, line, strlen(line), 0600, 0);
	return 0;
}
