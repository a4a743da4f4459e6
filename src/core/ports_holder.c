/* SPDX-License-Identifier: Apache-2.0 */
/* ports_holder - who has the port that is wanted: as much as this user may see. */
#include "core/ports_impl.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

/* ---- a process and what to call it ---------------------------------------------- */

/* The sandbox whose lock a process holds, which has its number in it. */
static bool sandbox_of(struct store *st, pid_t pid, char *out, size_t size)
{
	int fd = openat(st->run_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	bool found = false;

	if (!d) {
		closep(&fd);
		return false;
	}
	while (!found && (e = readdir(d))) {
		char path[300], text[16] = "";

		if (!spec_name_ok(e->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/lock", e->d_name);
		cleanup_fd int lock = openat(dirfd(d), path, O_RDONLY | O_CLOEXEC);
		found = lock >= 0 && read(lock, text, sizeof(text) - 1) > 0 &&
			strtol(text, NULL, 10) == pid;
		if (found)
			snprintf(out, size, "sandbox %s", e->d_name);
	}
	closedir(d);
	return found;
}

void pid_text(struct store *st, pid_t pid, char *out, size_t size)
{
	char path[40], name[32] = "";
	ssize_t n;

	if (sandbox_of(st, pid, out, size))
		return;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);
	name[n > 0 ? n : 0] = '\0';
	name[strcspn(name, "\n")] = '\0';
	for (char *c = name; *c; c++) /* anybody can call himself anything */
		if (*c < 0x20 || *c >= 0x7f)
			*c = '?';
	snprintf(out, size, "%s (pid %d)", name[0] ? name : "a process", (int)pid);
}

/* ---- other sandboxes of this user ----------------------------------------------- */

/* Does a line of the list (ports.c: note_list()) disturb this address? */
static bool disturbs(const char *line, size_t n, const struct host_end *e)
{
	const char *port = strrchr(e->text, ':');
	size_t len = strlen(port);

	if (n == strlen(e->text) && strncmp(line, e->text, n) == 0)
		return true;
	return line[0] != '/' && n > len && strncmp(line + n - len, port, len) == 0 &&
	       (strncmp(line, "0.0.0.0:", 8) == 0 || strncmp(line, "[::]:", 5) == 0 ||
		strncmp(e->text, "0.0.0.0:", 8) == 0 ||
		strncmp(e->text, "[::]:", 5) == 0);
}

static bool publishes(int run, const char *name, const struct host_end *e)
{
	cleanup_buf struct buf b = BUF_INIT(1u << 20);
	char path[300];

	snprintf(path, sizeof(path), "%s/" PORTS_FILE, name);
	if (read_file_at(run, path, &b) < 0 || !b.data)
		return false;
	for (const char *line = b.data; *line;) {
		size_t n = strcspn(line, "\n");

		if (disturbs(line, n, e))
			return true;
		line += n + (line[n] == '\n');
	}
	return false;
}

/* A keeper cannot be looked into, not even by its user: it says itself what it has. */
static bool sandbox_publishes(struct store *st, const struct host_end *e, char *out,
			      size_t size)
{
	int fd = openat(st->run_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	bool found = false;

	if (!d) {
		closep(&fd);
		return false;
	}
	while (!found && (entry = readdir(d)))
		found = spec_name_ok(entry->d_name) &&
			publishes(dirfd(d), entry->d_name, e) &&
			store_is_running(st, entry->d_name) &&
			snprintf(out, size, "sandbox %s", entry->d_name) > 0;
	closedir(d);
	return found;
}

/* ---- the socket ----------------------------------------------------------------- */

struct listener {
	unsigned long inode;
	unsigned uid;
};

/* sl local:port remote:port state queues timer retransmits uid timeout inode */
static bool line_matches(const char *line, const struct host_end *e, struct listener *ret)
{
	unsigned port, state, uid;
	unsigned long inode;
	char addr[40], mine[12];

	if (sscanf(line, " %*d: %39[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %u %*u %lu", addr,
		   &port, &state, &uid, &inode) != 5)
		return false;
	if (state != 0x0a || port != ntohs(e->addr.in.sin_port))
		return false;
	/* Two different addresses of IPv4 do not disturb each other. */
	snprintf(mine, sizeof(mine), "%08X", e->addr.in.sin_addr.s_addr);
	if (e->addr.any.sa_family == AF_INET && strlen(addr) == 8 &&
	    strcmp(addr, "00000000") != 0 && strcmp(mine, "00000000") != 0 &&
	    strcasecmp(addr, mine) != 0)
		return false;
	*ret = (struct listener){inode, uid};
	return true;
}

static bool search(const char *file, const struct host_end *e, struct listener *ret)
{
	cleanup_buf struct buf b = BUF_INIT(16u << 20);
	const char *line;

	if (read_file_at(AT_FDCWD, file, &b) < 0 || !b.data)
		return false;
	for (line = b.data; line && *line; line = *line ? line + 1 : line) {
		if (line_matches(line, e, ret))
			return true;
		line = strchrnul(line, '\n');
	}
	return false;
}

static bool find_listener(const struct host_end *e, struct listener *ret)
{
	return search("/proc/net/tcp", e, ret) || search("/proc/net/tcp6", e, ret);
}

static bool has_socket(int proc, const char *pid, const char *want)
{
	char path[300], link[32];
	const struct dirent *e;
	bool found = false;
	int fd;
	DIR *d;

	snprintf(path, sizeof(path), "%s/fd", pid);
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		closep(&fd);
		return false;
	}
	while (!found && (e = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		link[n > 0 ? n : 0] = '\0';
		found = strcmp(link, want) == 0;
	}
	closedir(d);
	return found;
}

static pid_t find_process(unsigned long inode)
{
	DIR *d = opendir("/proc");
	const struct dirent *e;
	char want[32];
	pid_t pid = 0;

	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	while (d && !pid && (e = readdir(d)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
		    has_socket(dirfd(d), e->d_name, want))
			pid = (pid_t)strtol(e->d_name, NULL, 10);
	if (d)
		closedir(d);
	return pid;
}

void port_holder(struct store *st, const struct host_end *e, char *out, size_t size)
{
	struct listener l;
	pid_t pid;

	*out = '\0';
	if (sandbox_publishes(st, e, out, size) || !find_listener(e, &l))
		return;
	pid = find_process(l.inode);
	if (pid)
		pid_text(st, pid, out, size);
	else
		snprintf(out, size, "a process of user %u", l.uid);
}
