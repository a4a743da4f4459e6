/* SPDX-License-Identifier: Apache-2.0 */
#include "core/terminfo.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"
#include "core/box.h"
#include "core/files.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>

#define ENTRY_MAX 65536

/* Where programs inside look; the first three come with the host image. */
static const char *const system_dirs[] = {"/usr/share/terminfo", "/lib/terminfo",
					  "/etc/terminfo"};

static bool name_ok(const char *term)
{
	size_t n = strlen(term);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)term[i]) && !strchr("-_.+", term[i]))
			return false;
	return n > 0 && n < 100 && term[0] != '.';
}

static int read_entry(const char *dir, const char *term, struct buf *ret)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/%c/%s", dir, term[0], term);
	return read_file_at(AT_FDCWD, path, ret);
}

/* The host's own places: $TERMINFO, ~/.terminfo, then the system's. */
static bool find_on_host(const char *term, struct buf *ret)
{
	const char *env = getenv("TERMINFO"), *home = getenv("HOME");
	char own[4096] = "";

	if (home && *home)
		snprintf(own, sizeof(own), "%s/.terminfo", home);
	if (env && env[0] == '/' && read_entry(env, term, ret) == 0)
		return true;
	if (*own && read_entry(own, term, ret) == 0)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(system_dirs); i++)
		if (read_entry(system_dirs[i], term, ret) == 0)
			return true;
	return false;
}

static bool is_inside(struct session *s, const struct spec *spec, const char *home,
		      const char *term)
{
	char path[4200];
	struct file_info info;
	struct cove_error ignored = {0};

	for (size_t i = 0; i < ARRAY_LEN(system_dirs); i++) {
		snprintf(path, sizeof(path), "%s/%c/%s", system_dirs[i], term[0], term);
		/* With the host image the host's own file answers, without a round trip.
		 */
		if (spec->image.kind == IMAGE_HOST
			    ? access(path, R_OK) == 0
			    : file_stat(s, path, &info, &ignored) == 0)
			return true;
	}
	snprintf(path, sizeof(path), "%s/.terminfo/%c/%s", home, term[0], term);
	return file_stat(s, path, &info, &ignored) == 0;
}

int terminfo_supply(struct session *s, const struct spec *spec, const char *term,
		    struct cove_error *err)
{
	cleanup_buf struct buf entry = BUF_INIT(ENTRY_MAX);
	const char *home, *user;
	char path[4200];
	struct cove_error ignored = {0};
	uid_t uid;
	gid_t gid;

	if (!name_ok(term) || box_user(spec, &uid, &gid, &home, &user, err) < 0 ||
	    is_inside(s, spec, home, term) || !find_on_host(term, &entry))
		return 0;
	snprintf(path, sizeof(path), "%s/.terminfo", home);
	file_mkdir(s, path, 0755, &ignored);
	snprintf(path, sizeof(path), "%s/.terminfo/%c", home, term[0]);
	file_mkdir(s, path, 0755, &ignored);
	snprintf(path, sizeof(path), "%s/.terminfo/%c/%s", home, term[0], term);
	file_write(s, path, 0644, entry.data, entry.len, &ignored);
	return 0;
}
