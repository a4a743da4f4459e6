/* SPDX-License-Identifier: Apache-2.0 */
#include "os/who.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"
#include "os/proctree.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

/* A sandbox decides how many processes and descriptors there are to look at, and a
 * connection waits for us. Who is not found within these is unknown. */
#define PROCESSES_MAX 8192
#define LINKS_MAX 65536
#define TRIES 2 /* a process may fork and end behind our back */

/* ---- the socket's inode --------------------------------------------------------- */

struct query {
	struct nlmsghdr h;
	struct inet_diag_req_v2 r;
};

static void set_end(__be32 out[4], __be16 *port, const struct sockaddr *sa)
{
	struct sockaddr_in a4;
	struct sockaddr_in6 a6;

	if (sa->sa_family == AF_INET) {
		memcpy(&a4, sa, sizeof(a4));
		memcpy(out, &a4.sin_addr, 4);
		*port = a4.sin_port;
	} else {
		memcpy(&a6, sa, sizeof(a6));
		memcpy(out, &a6.sin6_addr, 16);
		*port = a6.sin6_port;
	}
}

static int ask(int diag, struct query *q)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	char old[256];

	/* What an earlier question left behind is not the answer to this one. */
	while (recv(diag, old, sizeof(old), MSG_DONTWAIT) >= 0)
		;
	q->h = (struct nlmsghdr){.nlmsg_len = sizeof(*q),
				 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
				 .nlmsg_flags = NLM_F_REQUEST};
	if (sendto(diag, q, sizeof(*q), 0, (const struct sockaddr *)&kernel,
		   sizeof(kernel)) < 0)
		return -errno;
	return 0;
}

/* The kernel has answered before sendto() returned. */
static int answer(int diag, uint32_t *ret_inode)
{
	union {
		struct nlmsghdr h;
		char room[4096];
	} reply;
	ssize_t n = recv(diag, &reply, sizeof(reply), MSG_DONTWAIT);
	const struct inet_diag_msg *m = NLMSG_DATA(&reply.h);
	const struct nlmsgerr *e = NLMSG_DATA(&reply.h);

	if (n < 0)
		return errno == EAGAIN ? -ESRCH : -errno;
	if ((size_t)n >= NLMSG_LENGTH(sizeof(*e)) && reply.h.nlmsg_type == NLMSG_ERROR)
		return e->error == -ENOENT || !e->error ? -ESRCH : e->error;
	if ((size_t)n < NLMSG_LENGTH(sizeof(*m)) ||
	    reply.h.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return -EPROTO;
	/* Closed, and the kernel just says goodbye; or gone, and what listens on its port
	 * was found, which may be somebody else's. */
	if (!m->idiag_inode || m->idiag_state == TCP_LISTEN)
		return -ESRCH;
	*ret_inode = m->idiag_inode;
	return 0;
}

static int find_inode(int diag, bool udp, const struct sockaddr *from,
		      const struct sockaddr *to, uint32_t *ret)
{
	struct query q = {0};
	struct inet_diag_sockid *id = &q.r.id;
	int r;

	q.r.sdiag_family = (__u8)from->sa_family;
	q.r.sdiag_protocol = udp ? IPPROTO_UDP : IPPROTO_TCP;
	q.r.idiag_states = ~0u;
	id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	/* For one UDP socket, the kernel takes the two ends the other way round. */
	if (udp) {
		set_end(id->idiag_src, &id->idiag_sport, to);
		set_end(id->idiag_dst, &id->idiag_dport, from);
	} else {
		set_end(id->idiag_src, &id->idiag_sport, from);
		set_end(id->idiag_dst, &id->idiag_dport, to);
	}
	r = ask(diag, &q);
	return r < 0 ? r : answer(diag, ret);
}

/* ---- its holders ---------------------------------------------------------------- */

struct search {
	char link[32];  /* what the descriptor's link says */
	unsigned links; /* looked at so far */
	unsigned seen;  /* in the directory at hand */
};

static bool dir_has(int at, const char *path, struct search *s)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	char text[32];
	bool found = false;

	if (!d) {
		closep(&fd);
		return false;
	}
	while (!found && s->links < LINKS_MAX && (e = readdir(d))) {
		ssize_t n;

		if (e->d_name[0] == '.')
			continue;
		s->links++;
		s->seen++;
		n = readlinkat(dirfd(d), e->d_name, text, sizeof(text) - 1);
		if (n <= 0)
			continue;
		text[n] = '\0';
		found = strcmp(text, s->link) == 0;
	}
	closedir(d);
	return found;
}

/* A process whose first thread has ended shows its descriptors at the other ones. */
static bool threads_have(int proc, struct search *s)
{
	int fd = openat(proc, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	char path[300];
	bool found = false;

	if (!d) {
		closep(&fd);
		return false;
	}
	while (!found && s->links < LINKS_MAX && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		s->links++;
		snprintf(path, sizeof(path), "%s/fd", e->d_name);
		found = dir_has(dirfd(d), path, s);
	}
	closedir(d);
	return found;
}

static int open_proc(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static bool process_has(pid_t pid, struct search *s)
{
	cleanup_fd int proc = open_proc(pid);

	s->seen = 0;
	return proc >= 0 &&
	       (dir_has(proc, "fd", s) || (!s->seen && threads_have(proc, s)));
}

/* ---- its exec ------------------------------------------------------------------- */

/* For each process the index of the child of the first one that it descends from; the
 * first process itself has 0. Parents come before children, and in order. */
static void find_roots(const struct proctree *t, size_t *root)
{
	size_t parent = 0;

	root[0] = 0;
	for (size_t i = 1; i < t->n; i++) {
		while (parent + 1 < i && t->v[parent].pid != t->v[i].parent)
			parent++;
		root[i] = parent ? root[parent] : i;
	}
}

uint64_t who_now(void)
{
	struct timespec t;
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * hz + (uint64_t)t.tv_nsec * hz / 1000000000;
}

/* Field 22 of its stat; the name before it may hold anything. */
static int start_of(int proc, uint64_t *ret)
{
	cleanup_buf struct buf b = BUF_INIT(4096);
	const char *p = NULL;

	if (read_file_at(proc, "stat", &b) == 0 && b.data)
		p = strrchr(b.data, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return -ESRCH;
	*ret = strtoull(p + 1, NULL, 10);
	return 0;
}

/* The number that the innermost namespace has for it. */
static int number_inside(int proc, uint32_t *ret)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	const char *p, *end;

	if (read_file_at(proc, "status", &b) < 0 || !b.data)
		return -ESRCH;
	p = strstr(b.data, "\nNSpid:");
	if (!p)
		return -ENOSYS;
	end = strchr(p + 1, '\n');
	while (end && end > p && end[-1] >= '0' && end[-1] <= '9')
		end--;
	*ret = end ? (uint32_t)strtoul(end, NULL, 10) : 0;
	return *ret ? 0 : -ESRCH;
}

static int describe(pid_t pid, pid_t root, struct who *ret)
{
	struct who w = {.pid = pid};
	cleanup_fd int proc = open_proc(pid);
	cleanup_fd int top = open_proc(root);
	cleanup_fd int comm = proc < 0 ? -1 : openat(proc, "comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = comm < 0 ? -1 : read(comm, w.program, sizeof(w.program) - 1);
	int r;

	if (n <= 0 || top < 0)
		return -ESRCH;
	w.program[w.program[n - 1] == '\n' ? n - 1 : n] = '\0';
	r = number_inside(top, &w.root);
	if (r == 0)
		r = start_of(top, &w.started);
	if (r == 0)
		*ret = w;
	return r;
}

/* The youngest first: they are the likely ones. All execs are looked at, but each only
 * until it is found to have the socket. */
static int search_once(const struct proctree *t, size_t *root, struct search *s,
		       struct who *ret)
{
	size_t found = 0;

	find_roots(t, root);
	for (size_t i = t->n; i-- > 0;) {
		if ((found && root[i] == root[found]) || !process_has(t->v[i].pid, s))
			continue;
		if (found || i == 0)
			return -EMLINK; /* two execs, or the first process */
		found = i;
	}
	if (s->links >= LINKS_MAX)
		return -EMLINK; /* there may be another */
	if (!found)
		return -ESRCH;
	return describe(t->v[found].pid, t->v[root[found]].pid, ret);
}

static int find_holder(pid_t init, uint32_t inode, struct who *ret)
{
	struct proctree t = {0};
	struct search s = {0};
	cleanup_free size_t *root = calloc(PROCESSES_MAX, sizeof(*root));
	int r = root ? -ESRCH : -ENOMEM;

	snprintf(s.link, sizeof(s.link), "socket:[%u]", inode);
	for (int i = 0; i < TRIES && r == -ESRCH; i++) {
		r = proctree_list(&t, init);
		if (r == 0)
			r = t.n > PROCESSES_MAX ? -EMLINK
						: search_once(&t, root, &s, ret);
	}
	proctree_clear(&t);
	return r == -EMLINK ? -ESRCH : r;
}

int who_has(int diag, pid_t init, bool udp, const struct sockaddr *from,
	    const struct sockaddr *to, struct who *ret)
{
	uint32_t inode = 0;
	int r;

	if (from->sa_family != to->sa_family)
		return -ESRCH;
	r = find_inode(diag, udp, from, to, &inode);
	return r < 0 ? r : find_holder(init, inode, ret);
}
