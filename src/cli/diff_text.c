/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff_text - a change as git prints it, so that `git apply` and `patch -p1` take it.
 *
 * What that form cannot express (directories, owners, devices) is said in lines that
 * begin with '#', which both programs skip; they stand before the "diff --git" line,
 * since git takes what is behind it for the header of the file.
 */
#include "cli/diff.h"

#include <stdarg.h>
#include <sys/stat.h>

#define BOLD "1"
#define RED "31"
#define GREEN "32"
#define CYAN "36"

/* ---- names ------------------------------------------------------------------------ */

static char *quote_bytes(const char *prefix, const char *path, const char *safe)
{
	static const char letters[] = "abtnvfr";
	char *out = malloc(strlen(prefix) + strlen(path) * 4 + 3);
	size_t n = strlen(prefix) + 1;

	if (!out)
		return NULL;
	out[0] = '"';
	memcpy(out + 1, prefix, n - 1);
	for (; *path; path++) {
		unsigned char c = (unsigned char)*path;
		bool bad = c != '\\' && *safe == '\\'; /* "\xNN" stands there */

		safe += bad ? 4 : 1;
		if (c == '"' || c == '\\' || (c >= 7 && c <= 13)) {
			out[n++] = '\\';
			out[n++] = c >= 7 && c <= 13 ? letters[c - 7] : (char)c;
		} else if (bad) {
			n += (size_t)snprintf(out + n, 5, "\\%03o", c);
		} else {
			out[n++] = (char)c;
		}
	}
	out[n++] = '"';
	out[n] = '\0';
	return out;
}

char *diff_quote(const char *prefix, const char *path)
{
	cleanup_free char *safe = cli_escape(path);
	char *out = NULL;

	if (!safe)
		return NULL;
	if (strcmp(safe, path) != 0 || strpbrk(path, "\"\\"))
		return quote_bytes(prefix, path, safe);
	return asprintf(&out, "%s%s", prefix, path) < 0 ? NULL : out;
}

/* ---- lines ------------------------------------------------------------------------ */

static void paint(FILE *f, const struct diff_style *style, const char *sgr)
{
	if (style->colour)
		fprintf(f, "\033[%sm", sgr ? sgr : "");
}

__attribute__((format(printf, 3, 4))) static void
head(FILE *f, const struct diff_style *style, const char *fmt, ...)
{
	va_list ap;

	paint(f, style, BOLD);
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	paint(f, style, NULL);
	fputc('\n', f);
}

/* A stretch without tabs and NULs, made harmless. */
static void put_escaped(FILE *f, const char *s, size_t n)
{
	cleanup_free char *copy = strndup(s, n);
	cleanup_free char *safe = copy ? cli_escape(copy) : NULL;

	if (safe)
		fputs(safe, f);
}

/* One line of a diff for a terminal: tabs stay, a carriage return at the end shows. */
static void put_harmless(FILE *f, const char *s, size_t n)
{
	bool cr = n > 0 && s[n - 1] == '\r';

	n -= cr;
	while (n > 0) {
		size_t run = 0;

		while (run < n && s[run] != '\t' && s[run] != '\0')
			run++;
		put_escaped(f, s, run);
		if (run < n)
			fputs(s[run] ? "\t" : "\\x00", f);
		run += run < n;
		s += run;
		n -= run;
	}
	if (cr)
		fputs("^M", f);
}

static void put_line(FILE *f, const char *s, size_t n, const struct diff_style *style)
{
	const char *sgr = s[0] == '+'   ? GREEN
			  : s[0] == '-' ? RED
			  : s[0] == '@' ? CYAN
					: NULL;

	if (sgr)
		paint(f, style, sgr);
	if (style->terminal)
		put_harmless(f, s, n);
	else
		fwrite(s, 1, n, f);
	if (sgr)
		paint(f, style, NULL);
	fputc('\n', f);
}

void diff_put_text(FILE *f, const char *text, size_t n, const struct diff_style *style)
{
	if (n > 0 && !style->terminal && !style->colour) {
		fwrite(text, 1, n, f);
		return;
	}
	while (n > 0) {
		const char *nl = memchr(text, '\n', n);
		size_t len = nl ? (size_t)(nl - text) : n;

		put_line(f, text, len, style);
		len += nl != NULL;
		text += len;
		n -= len;
	}
}

/* ---- one file --------------------------------------------------------------------- */

/* One side of what is printed: a change of type is printed as two. */
struct part {
	const char *from, *to; /* paths */
	uint32_t old_mode, new_mode;
	uint64_t old_size, new_size;
	const char *text;
	size_t text_len;
};

static bool in_git(uint32_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

/* After a name with a space a tab, as patch(1) needs it to find the end. */
static void put_name(FILE *f, const char *sign, const char *prefix, const char *path,
		     bool exists, const struct diff_style *style)
{
	cleanup_free char *name = diff_quote(prefix, path);

	head(f, style, "%s %s%s", sign, exists && name ? name : "/dev/null",
	     exists && strchr(path, ' ') ? "\t" : "");
}

static void put_modes(FILE *f, const struct part *p, const struct diff_style *style)
{
	if (!p->old_mode)
		head(f, style, "new file mode %06o", p->new_mode);
	else if (!p->new_mode)
		head(f, style, "deleted file mode %06o", p->old_mode);
	else if (p->old_mode != p->new_mode) {
		head(f, style, "old mode %06o", p->old_mode);
		head(f, style, "new mode %06o", p->new_mode);
	}
}

static void put_rename(FILE *f, const struct cove_change *c,
		       const struct diff_style *style)
{
	cleanup_free char *from = diff_quote("", c->from), *to = diff_quote("", c->path);

	if (!(c->what & COVE_WHAT_CONTENT))
		head(f, style, "similarity index 100%%");
	head(f, style, "rename from %s", from ? from : "");
	head(f, style, "rename to %s", to ? to : "");
}

static void put_names(FILE *f, const struct part *p, const struct diff_style *style)
{
	put_name(f, "---", "a/", p->from, p->old_mode != 0, style);
	put_name(f, "+++", "b/", p->to, p->new_mode != 0, style);
}

/* By its first and last words git knows the line, and refuses to apply half a patch; it
 * needs a header to be more than one line for that. */
static void put_binary(FILE *f, const struct part *p, const char *a, const char *b,
		       const struct diff_style *style)
{
	put_names(f, p, style);
	fprintf(f, "Binary files %s and %s (%llu -> %llu bytes) differ\n",
		p->old_mode ? a : "/dev/null", p->new_mode ? b : "/dev/null",
		p->old_mode ? (unsigned long long)p->old_size : 0ull,
		p->new_mode ? (unsigned long long)p->new_size : 0ull);
}

static void put_file(FILE *f, const struct cove_change *c, const struct part *p,
		     const struct diff_style *style)
{
	const uint32_t opaque = COVE_WHAT_BINARY | COVE_WHAT_UNREADABLE;
	cleanup_free char *a = diff_quote("a/", p->from), *b = diff_quote("b/", p->to);

	if (!a || !b)
		return;
	head(f, style, "diff --git %s %s", a, b);
	put_modes(f, p, style);
	if (c->kind == COVE_RENAMED && c->from)
		put_rename(f, c, style);
	if ((c->what & opaque) && (c->what & COVE_WHAT_CONTENT)) {
		put_binary(f, p, a, b, style);
	} else if (p->text_len > 0) {
		put_names(f, p, style);
		diff_put_text(f, p->text, p->text_len, style);
	}
}

/* ---- what git has no words for ---------------------------------------------------- */

static const char *type_name(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	default:
		return "device";
	}
}

static void put_notes(FILE *f, const struct cove_change *c)
{
	static const struct {
		uint32_t bit;
		const char *text;
	} notes[] = {
		{COVE_WHAT_OWNER, "its owner changed"              },
		{COVE_WHAT_XATTR, "its extended attributes changed"},
	};
	cleanup_free char *name = diff_quote("", c->path);
	cleanup_free char *why = c->why ? cli_escape(c->why) : NULL;

	if (!name)
		return;
	for (size_t i = 0; i < ARRAY_LEN(notes); i++)
		if (c->what & notes[i].bit)
			fprintf(f, "# %s: %s\n", name, notes[i].text);
	if (c->what & COVE_WHAT_UNREADABLE)
		fprintf(f, "# %s: cannot be read: %s\n", name, why ? why : "unknown");
	if (c->old_mode && !in_git(c->old_mode) && (c->old_mode ^ c->new_mode) & S_IFMT)
		fprintf(f, "# %s: deleted %s\n", name, type_name(c->old_mode));
	if (c->new_mode && !in_git(c->new_mode) && (c->old_mode ^ c->new_mode) & S_IFMT)
		fprintf(f, "# %s: new %s, mode %04o\n", name, type_name(c->new_mode),
			c->new_mode & 07777);
	else if (!in_git(c->new_mode) && (c->what & COVE_WHAT_MODE))
		fprintf(f, "# %s: mode %04o -> %04o\n", name, c->old_mode & 07777,
			c->new_mode & 07777);
}

/* Where the second of two texts begins: at the hunk that adds to nothing. */
static size_t second_text(const struct cove_change *c)
{
	static const char mark[] = "@@ -0,0 ";
	const char *p = c->text, *end = p + c->text_len;

	while (p && p < end && strncmp(p, mark, sizeof(mark) - 1) != 0) {
		p = memchr(p, '\n', (size_t)(end - p));
		p = p ? p + 1 : end;
	}
	return p ? (size_t)(p - c->text) : 0;
}

static void put_retyped(FILE *f, const struct cove_change *c,
			const struct diff_style *style)
{
	size_t cut = second_text(c);
	struct part went = {.from = c->path,
			    .to = c->path,
			    .old_mode = c->old_mode,
			    .old_size = c->old_size,
			    .text = c->text,
			    .text_len = cut};
	struct part came = {.from = c->path,
			    .to = c->path,
			    .new_mode = c->new_mode,
			    .new_size = c->new_size,
			    .text = c->text ? c->text + cut : NULL,
			    .text_len = c->text_len - cut};

	if (in_git(c->old_mode))
		put_file(f, c, &went, style);
	if (in_git(c->new_mode))
		put_file(f, c, &came, style);
}

void diff_put_change(FILE *f, const struct cove_change *c, const struct diff_style *style)
{
	struct part p = {.from = c->from ? c->from : c->path,
			 .to = c->path,
			 .old_mode = c->kind == COVE_ADDED ? 0 : c->old_mode,
			 .new_mode = c->kind == COVE_DELETED ? 0 : c->new_mode,
			 .old_size = c->old_size,
			 .new_size = c->new_size,
			 .text = c->text,
			 .text_len = c->text_len};
	const uint32_t shown = COVE_WHAT_CONTENT | COVE_WHAT_TARGET | COVE_WHAT_MODE;

	put_notes(f, c);
	if (c->kind == COVE_RETYPED)
		put_retyped(f, c, style);
	else if (in_git(c->new_mode ? c->new_mode : c->old_mode) &&
		 (c->kind != COVE_ATTRS || (c->what & shown)))
		put_file(f, c, &p, style);
}
