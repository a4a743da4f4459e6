/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_listen - says what inotify says of directories and files, one event a line, until it
 * is killed. "ready" once it watches.
 *
 *	fs_listen PATH...
 */
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

static const struct {
	unsigned mask;
	const char *name;
} events[] = {
	{IN_CREATE,      "create"     },
        {IN_DELETE,      "delete"     },
	{IN_MODIFY,      "modify"     },
        {IN_CLOSE_WRITE, "close_write"},
	{IN_ATTRIB,      "attrib"     },
        {IN_MOVED_FROM,  "moved_from" },
	{IN_MOVED_TO,    "moved_to"   },
        {IN_Q_OVERFLOW,  "overflow"   },
};

static void say(const struct inotify_event *e)
{
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (e->mask & events[i].mask)
			printf("%s %s\n", events[i].name, e->len ? e->name : ".");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char buf[16384] __attribute__((aligned(8)));
	int fd = inotify_init();
	ssize_t n;

	for (int i = 1; i < argc; i++)
		if (inotify_add_watch(fd, argv[i], IN_ALL_EVENTS) < 0)
			return 1;
	puts("ready");
	fflush(stdout);
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *e = (const void *)(buf + at);

			say(e);
			at += (ssize_t)(sizeof(*e) + e->len);
		}
	}
	return 0;
}
