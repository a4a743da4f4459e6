/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_kept - what stays of removed sandboxes: HOME/WHAT/NAME-TIME, where WHAT is audit
 * or quarantine.
 */
#include "core/store_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define STAMP "-20250131T235959.999Z" /* the form; sorts by time */
#define STAMP_LEN (sizeof(STAMP) - 1)

int store_kept_open(const struct store *st, const char *what, bool make)
{
	cleanup_fd int home = open(st->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (home < 0)
		return -errno;
	if (make && mkdirat(home, what, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(home, what, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

const char *store_kept_stamp(const char *entry, const char *name)
{
	size_t n = strlen(entry);
	const char *s = n > STAMP_LEN ? entry + n - STAMP_LEN : NULL;

	if (!s || s[0] != '-' || s[9] != 'T' || s[STAMP_LEN - 1] != 'Z' ||
	    entry[0] == '.')
		return NULL;
	return !name || (strlen(name) == (size_t)(s - entry) &&
			 strncmp(entry, name, strlen(name)) == 0)
		       ? s
		       : NULL;
}

int store_kept_make(int kept, const char *prefix, const char *name, char *out,
		    size_t size)
{
	for (int tries = 0; tries < 1000; tries++) {
		struct timespec t;
		struct tm tm;
		char stamp[32];
		int r;

		clock_gettime(CLOCK_REALTIME, &t);
		gmtime_r(&t.tv_sec, &tm);
		strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%S", &tm);
		snprintf(out, size, "%s%s-%s.%03dZ", prefix, name, stamp,
			 (int)(t.tv_nsec / 1000000));
		r = mkdirat(kept, out, 0700) < 0 ? -errno : 0;
		if (r != -EEXIST)
			return r;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return -EEXIST;
}
