/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_fetch - packages from Debian's archive, by apt: it knows the mirror, the proxy
 * and the keys. Nothing is installed and nothing of the host changes.
 */
#include "vm/kernel_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "vm/kernel_tool.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define TEXT_MAX (1u << 20)
#define ARGS_MAX 24
#define OPTION_MAX 4400

/* ---- running apt --------------------------------------------------------------- */

struct apt {
	char lists[OPTION_MAX], cache[OPTION_MAX];
	const char *argv[ARGS_MAX];
	size_t n;
};

static void add(struct apt *a, const char *arg)
{
	if (a->n < ARGS_MAX - 1)
		a->argv[a->n++] = arg;
}

static void add_option(struct apt *a, const char *option)
{
	add(a, "-o");
	add(a, option);
}

static void apt_begin(struct apt *a, const char *program, const struct archive *archive)
{
	*a = (struct apt){0};
	add(a, program);
	add(a, "-q");
	/* The directory is nobody else's, not even _apt's. */
	add_option(a, "APT::Sandbox::User=root");
	/* a name server that was too slow once */
	add_option(a, "Acquire::Retries=3");
	if (!archive->own_lists)
		return;
	snprintf(a->lists, sizeof(a->lists), "Dir::State::Lists=%s/lists", archive->dir);
	snprintf(a->cache, sizeof(a->cache), "Dir::Cache=%s/cache", archive->dir);
	add_option(a, a->lists);
	add_option(a, a->cache);
}

/* apt wants to find its directories made. */
static int make_list_dirs(const struct archive *archive, struct cove_error *err)
{
	static const char *const dirs[] = {"lists/partial", "cache/archives/partial"};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		char path[OPTION_MAX];
		int r;

		snprintf(path, sizeof(path), "%s/%s", archive->dir, dirs[i]);
		r = mkdir_p(path, 0700);
		if (r < 0)
			return fail(err, COVE_EIO, -r, "create %s", path);
	}
	return 0;
}

/* Some of the host's sources may fail, and others have what is wanted: it is only told
 * if in the end nobody had. */
static void use_own_lists(struct archive *archive)
{
	struct apt a;

	archive->own_lists = true;
	if (make_list_dirs(archive, &archive->lists) < 0)
		return;
	report(archive->report, "fetching package lists", 0, 0);
	apt_begin(&a, "apt-get", archive);
	add_option(&a, "APT::Update::Error-Mode=any");
	add(&a, "update");
	tool_run(&(struct tool){.argv = a.argv, .in = -1, .out = -1}, &archive->lists);
}

/* The second try failed too: what is behind it? */
static int give_up(const struct archive *archive, struct cove_error *err)
{
	if (archive->lists.code)
		*err = archive->lists;
	return err->code;
}

/* ---- which package ------------------------------------------------------------- */

static bool package_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' ||
	       c == '.';
}

/* "NAME (= VERSION)" at s, as NAME_VERSION. */
static bool take_dependency(const char *s, char ret[PACKAGE_FILE_MAX + 1])
{
	size_t name = 0, version;

	while (package_char(s[name]))
		name++;
	if (strncmp(s + name, " (= ", 4) != 0)
		return false;
	version = strcspn(s + name + 4, ")\n");
	return name && version && s[name + 4 + version] == ')' &&
	       snprintf(ret, PACKAGE_FILE_MAX + 1, "%.*s_%.*s", (int)name, s,
			(int)version, s + name + 4) <= PACKAGE_FILE_MAX;
}

/* The line "Depends: a (= 1), b, c". */
static bool find_dependency(const char *text, const char *prefix,
			    char ret[PACKAGE_FILE_MAX + 1])
{
	const char *line = strstr(text, "\nDepends: ");
	const char *end, *s;

	if (!line)
		return false;
	line += strlen("\nDepends: ");
	end = line + strcspn(line, "\n");
	for (s = line; s < end; s += strcspn(s, ",\n"), s += strspn(s, ", "))
		if (strncmp(s, prefix, strlen(prefix)) == 0)
			return take_dependency(s, ret);
	return false;
}

static int resolve_once(const struct archive *archive, const char *meta,
			const char *prefix, char ret[PACKAGE_FILE_MAX + 1],
			struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(TEXT_MAX);
	struct apt a;

	report(archive->report, "looking for a kernel package", 0, 0);
	apt_begin(&a, "apt-cache", archive);
	add(&a, "show");
	add(&a, "--no-all-versions");
	add(&a, meta);
	if (tool_run(&(struct tool){.argv = a.argv, .in = -1, .out = -1, .text = &text},
		     err) < 0)
		return err->code;
	if (!text.data || !find_dependency(text.data, prefix, ret))
		return fail(err, COVE_EIO, 0, "apt-cache does not say what %s is", meta);
	return 0;
}

int archive_resolve(struct archive *archive, const char *meta, const char *prefix,
		    char ret[PACKAGE_FILE_MAX + 1], struct cove_error *err)
{
	int r = resolve_once(archive, meta, prefix, ret, err);

	if (r != COVE_EIO || archive->own_lists)
		return r;
	use_own_lists(archive);
	r = resolve_once(archive, meta, prefix, ret, err);
	return r < 0 ? give_up(archive, err) : 0;
}

/* ---- fetching ------------------------------------------------------------------ */

struct download {
	const struct archive *archive;
	char what[PACKAGE_FILE_MAX + 16];
	uint64_t total; /* 0: apt did not say yet */
};

/* "Get:1 http://... [26.6 MB]" */
static void take_size(void *arg, const char *line)
{
	static const struct {
		const char *name;
		double bytes;
	} units[] = {
		{" B]",  1  },
                {" kB]", 1e3},
                {" MB]", 1e6},
                {" GB]", 1e9}
        };
	const char *open = strrchr(line, '[');
	struct download *d = arg;
	double value;
	char *end;

	if (strncmp(line, "Get:", 4) != 0 || !open)
		return;
	value = strtod(open + 1, &end);
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (strcmp(end, units[i].name) == 0 && value > 0 && value < 1e6)
			d->total = (uint64_t)(value * units[i].bytes);
}

/* The one file that ends so. */
static bool find_deb(int dir, char ret[PACKAGE_FILE_MAX + 1], uint64_t *ret_bytes)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	bool found = false;

	if (!d && fd >= 0)
		close(fd);
	while (d && !found && (e = readdir(d))) {
		size_t n = strlen(e->d_name);
		struct stat st;

		if (n < 5 || n > PACKAGE_FILE_MAX ||
		    strcmp(e->d_name + n - 4, ".deb") != 0 ||
		    fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		snprintf(ret, PACKAGE_FILE_MAX + 1, "%s", e->d_name);
		*ret_bytes = (uint64_t)st.st_size;
		found = true;
	}
	if (d)
		closedir(d);
	return found;
}

static void look(void *arg)
{
	const struct download *d = arg;
	cleanup_fd int dir = open(d->archive->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[PACKAGE_FILE_MAX + 1];
	uint64_t bytes = 0;

	if (dir >= 0)
		find_deb(dir, name, &bytes);
	report(d->archive->report, d->what, bytes, d->total);
}

static int fetch_once(const struct archive *archive, const char *package,
		      struct cove_error *err)
{
	char request[PACKAGE_FILE_MAX + 1];
	struct download d = {.archive = archive};
	char *version;
	struct apt a;

	snprintf(request, sizeof(request), "%s", package);
	version = strchr(request, '_');
	if (version) /* apt's own way to name a version */
		*version = '=';
	snprintf(d.what, sizeof(d.what), "fetching %.*s", (int)strcspn(package, "_"),
		 package);
	apt_begin(&a, "apt-get", archive);
	add(&a, "download");
	add(&a, request);
	return tool_run(&(struct tool){.argv = a.argv,
				       .dir = archive->dir,
				       .in = -1,
				       .out = -1,
				       .line = take_size,
				       .tick = look,
				       .arg = &d},
			err);
}

int archive_fetch(struct archive *archive, const char *package,
		  char ret[PACKAGE_FILE_MAX + 1], struct cove_error *err)
{
	cleanup_fd int dir = open(archive->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t bytes;
	int r;

	if (dir < 0)
		return fail(err, COVE_EIO, errno, "%s", archive->dir);
	r = fetch_once(archive, package, err);
	if (r == COVE_EIO && !archive->own_lists) { /* the lists name what is gone */
		use_own_lists(archive);
		r = fetch_once(archive, package, err);
		if (r < 0)
			return give_up(archive, err);
	}
	if (r == 0 && !find_deb(dir, ret, &bytes))
		r = fail(err, COVE_EIO, 0, "apt-get has left no package");
	return r;
}
