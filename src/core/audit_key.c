/* SPDX-License-Identifier: Apache-2.0 */
/* audit_key - the key of the chains: one a user, made once, readable by nobody else. */
#include "core/audit_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

static int read_key(int fd, struct audit_key *ret)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return -EPERM;
	if (st.st_size != sizeof(ret->bytes) ||
	    pread(fd, ret->bytes, sizeof(ret->bytes), 0) != sizeof(ret->bytes))
		return -EBADMSG;
	audit_key_id(ret);
	return 0;
}

/* Appears whole or not at all; the first of several makers wins. */
static int make_key(int home)
{
	unsigned char bytes[32];
	char tmp[48];
	int r = 0;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	snprintf(tmp, sizeof(tmp), ".%s.%d", AUDIT_KEY, (int)getpid());
	unlinkat(home, tmp, 0);
	cleanup_fd int fd = openat(
		home, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = write_all(fd, bytes, sizeof(bytes));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && linkat(home, tmp, home, AUDIT_KEY, 0) < 0 && errno != EEXIST)
		r = -errno;
	unlinkat(home, tmp, 0);
	if (r == 0)
		fsync(home);
	return r;
}

int audit_key_load(struct store *st, bool make, struct audit_key *ret,
		   struct cove_error *err)
{
	cleanup_fd int home = open(st->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = home < 0 ? -errno : 0;

	for (int tries = 0; r == 0 && tries < 2; tries++) {
		cleanup_fd int fd =
			openat(home, AUDIT_KEY, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0) {
			r = read_key(fd, ret);
			break;
		}
		r = errno == ENOENT && make && tries == 0 ? make_key(home) : -errno;
	}
	if (r == 0)
		return 0;
	if (r == -EPERM || r == -EBADMSG) {
		fail(err, COVE_EDAMAGED, 0, "%s/%s: %s", st->home, AUDIT_KEY,
		     r == -EPERM ? "not a file of this user that others cannot read"
				 : "is not a key of 32 bytes");
		return hint(err, "put the right one back; a new one is made if there is "
				 "none, but older records cannot be checked then");
	}
	return fail(err, COVE_EIO, -r, "%s/%s", st->home, AUDIT_KEY);
}
