/* SPDX-License-Identifier: Apache-2.0 */
#include "seccomp-policy.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define MAX_NAMES 64
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static struct policy *policy;
static const char *file;
static int line_no;
static int have_default;
static struct number { /* calls that libseccomp does not know yet */
	char name[64];
	int nr;
} numbers[MAX_NAMES];
static int n_numbers;

void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "seccomp-gen: ");
	if (file)
		fprintf(stderr, "%s:%d: ", file, line_no);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

/* ---- names of values ------------------------------------------------------------------
 */

/* clang-format off */
#define C(x) {#x, (uint32_t)(x)}
static const struct constant {
	const char *name;
	uint32_t value;
} errnos[] = {
	C(EPERM), C(ENOSYS), C(EACCES), C(EINVAL), C(EAFNOSUPPORT), C(EPROTONOSUPPORT),
	C(EOPNOTSUPP), {NULL, 0},
}, constants[] = {
	C(AF_UNIX), C(AF_INET), C(AF_INET6), C(AF_NETLINK), C(SOCK_STREAM), C(SOCK_DGRAM),
	C(IPPROTO_TCP), C(IPPROTO_UDP), C(IPPROTO_ICMP), C(IPPROTO_ICMPV6), C(IPPROTO_MPTCP),
	C(NETLINK_ROUTE), C(TIOCSTI), C(TIOCLINUX), C(TIOCSETD),
	C(S_IFMT), C(S_IFREG), C(S_IFIFO), C(S_IFSOCK),
	{"CLONE_NEWALL", CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
		CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWTIME},
	{"CLONE_UNSHARE_OK", CLONE_FILES | CLONE_FS | CLONE_SYSVSEM | CLONE_THREAD |
		CLONE_VM | CLONE_SIGHAND},
	{NULL, 0},
};
/* clang-format on */

static int lookup(const struct constant *t, const char *name, uint32_t *ret)
{
	for (; t->name; t++) {
		if (strcmp(t->name, name) == 0) {
			*ret = t->value;
			return 1;
		}
	}
	return 0;
}

static uint32_t parse_value(const char *s)
{
	uint32_t v;
	unsigned long long n;
	char *end;

	if (lookup(constants, s, &v))
		return v;
	errno = 0;
	n = strtoull(s, &end, 0);
	if (*s < '0' || *s > '9' || *end || errno || n > UINT32_MAX)
		die("'%s' is neither a number of 32 bits nor a known constant", s);
	return (uint32_t)n;
}

static uint32_t parse_mask(char *s)
{
	int invert = *s == '~';
	uint32_t mask = 0;
	char *save, *part = strtok_r(s + invert, "|", &save);

	for (; part; part = strtok_r(NULL, "|", &save))
		mask |= parse_value(part);
	return invert ? ~mask : mask;
}

static uint32_t parse_action(const char *s)
{
	uint32_t e;

	if (strcmp(s, "allow") == 0)
		return SECCOMP_RET_ALLOW;
	if (strcmp(s, "nothing") == 0)
		return SECCOMP_RET_ERRNO; /* error 0: not carried out, and success */
	if (strcmp(s, "kill") == 0)
		return SECCOMP_RET_KILL_PROCESS;
	if (!lookup(errnos, s, &e))
		die("'%s' is not an action", s);
	return SECCOMP_RET_ERRNO | e;
}

/* The number of a call, or -1 if this architecture does not have it. */
static int resolve(const char *name)
{
	int nr = seccomp_syscall_resolve_name_arch(policy->arch, name);

	if (nr == __NR_SCMP_ERROR)
		for (int i = 0; i < n_numbers; i++)
			if (strcmp(numbers[i].name, name) == 0)
				nr = numbers[i].nr;
	if (nr == __NR_SCMP_ERROR)
		die("no system call is named '%s'", name);
	if (nr >= MAX_NR)
		die("%s: number %d is out of range", name, nr);
	return nr < 0 ? -1 : nr;
}

/* ---- the policy file ------------------------------------------------------------------
 */

static char *next_word(char **save)
{
	return strtok_r(NULL, " \t\n", save);
}

static char *need_word(char **save)
{
	char *w = next_word(save);

	if (!w)
		die("the line ends too early");
	return w;
}

static void parse_cond(struct cond *c, char **save)
{
	char *w = need_word(save), *list, *part, *in_list;
	int high = strncmp(w, "high", 4) == 0;

	if ((!high && strncmp(w, "arg", 3) != 0) || strspn(w + 3 + high, "012345") != 1 ||
	    w[4 + high])
		die("'%s' is neither arg0..arg5 nor high0..high5", w);
	/* Both architectures are little-endian: the low half comes first. */
	c->offset = (int)offsetof(struct seccomp_data, args) + 8 * (w[3 + high] - '0') +
		    4 * high;
	c->mask = UINT32_MAX;
	w = need_word(save);
	if (strcmp(w, "&") == 0) {
		c->mask = parse_mask(need_word(save));
		w = need_word(save);
	}
	c->negate = strcmp(w, "notin") == 0;
	if (!c->negate && strcmp(w, "in") != 0)
		die("'in' or 'notin' expected, not '%s'", w);
	list = need_word(save);
	for (part = strtok_r(list, ",", &in_list); part;
	     part = strtok_r(NULL, ",", &in_list)) {
		if (c->n == MAX_VALUES)
			die("too many values");
		c->val[c->n++] = parse_value(part);
	}
}

static void parse_conds(struct rule *r, char **save)
{
	char *w;

	do {
		if (r->n == MAX_CONDS)
			die("too many conditions");
		parse_cond(&r->cond[r->n++], save);
		w = next_word(save);
		if (w && strcmp(w, "and") != 0)
			die("'and' expected, not '%s'", w);
	} while (w);
}

static void add_rule(const char *name, const struct rule *r)
{
	int nr = resolve(name);
	struct call *c = nr < 0 ? NULL : &policy->call[nr];

	if (!c)
		return;
	if (c->n && c->rule[c->n - 1].n == 0)
		die("%s has its last rule already", name);
	if (c->n == MAX_RULES)
		die("%s: too many rules", name);
	c->rule[c->n++] = *r;
}

static void parse_rule(const char *action, char **save)
{
	struct rule r = {.action = parse_action(action)};
	const char *names[MAX_NAMES], *w;
	int n = 0;

	while ((w = next_word(save)) && strcmp(w, "if") != 0) {
		if (n == MAX_NAMES)
			die("too many names");
		names[n++] = w;
	}
	if (n == 0)
		die("no system call named");
	if (w)
		parse_conds(&r, save);
	for (int i = 0; i < n; i++)
		add_rule(names[i], &r);
}

static void parse_line(char *line)
{
	char *save, *w;

	line[strcspn(line, "#")] = '\0';
	w = strtok_r(line, " \t\n", &save);
	if (!w)
		return;
	if (strcmp(w, "default") == 0) {
		policy->default_action = parse_action(need_word(&save));
		have_default = 1;
	} else if (strcmp(w, "number") == 0) {
		struct number *n = &numbers[n_numbers++];

		if (n_numbers == MAX_NAMES)
			die("too many numbers");
		if (snprintf(n->name, sizeof(n->name), "%s", need_word(&save)) >=
		    (int)sizeof(n->name))
			die("name too long");
		n->nr = (int)parse_value(need_word(&save));
	} else {
		parse_rule(w, &save);
	}
}

void policy_read(struct policy *p, const char *path)
{
	char line[1024];
	FILE *f = fopen(path, "re");

	policy = p;
	file = path;

	if (!f)
		die("%s", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		line_no++;
		if (!strchr(line, '\n'))
			die("line too long");
		parse_line(line);
	}
	fclose(f);
	if (!have_default)
		die("no default");
	for (int nr = 0; nr < MAX_NR; nr++)
		if (policy->call[nr].n && policy->call[nr].rule[policy->call[nr].n - 1].n)
			die("call number %d: its last rule has a condition", nr);
}
