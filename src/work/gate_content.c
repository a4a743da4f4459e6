/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_content - what is in a staged file: its digest, programs that are no text, and the
 * drivers that a .gitattributes chooses.
 */
#include "work/gate_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/xattr.h>

#define BLOCK 65536
#define ATTRIBUTES_MAX (1u << 20)

/* ---- seals ---------------------------------------------------------------------- */

static ssize_t read_block(int fd, void *block, size_t size, off_t at)
{
	size_t n = 0;

	while (n < size) {
		ssize_t r = pread(fd, (char *)block + n, size - n, at + (off_t)n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		n += (size_t)r;
	}
	return (ssize_t)n;
}

static int digest_file(int fd, unsigned char ret[GATE_DIGEST])
{
	crypto_generichash_state h;
	cleanup_free char *block = malloc(BLOCK);
	off_t at = 0;
	ssize_t n;

	if (!block)
		return -ENOMEM;
	crypto_generichash_init(&h, NULL, 0, GATE_DIGEST);
	while ((n = read_block(fd, block, BLOCK, at)) > 0) {
		crypto_generichash_update(&h, (unsigned char *)block,
					  (unsigned long long)n);
		at += n;
	}
	crypto_generichash_final(&h, ret, GATE_DIGEST);
	return n < 0 ? (int)n : 0;
}

/* A file above the limit may not be staged at all, and is not read for this: the kernel's
 * own record of its last change stands for its content. */
static void digest_identity(const struct gate_item *it, unsigned char ret[GATE_DIGEST])
{
	const struct ident *id = &it->change->new;
	const uint64_t parts[] = {id->size, id->ino, (uint64_t)id->ctime_ns, it->size};

	crypto_generichash(ret, GATE_DIGEST, (const unsigned char *)parts, sizeof(parts),
			   NULL, 0);
}

static int digest_of_item(struct gate *g, size_t i, struct cove_error *err)
{
	const struct gate_item *it = &g->items[i];
	int r = 0;

	if (g->digest_known[i])
		return 0;
	if (it->size > g->max_file) {
		digest_identity(it, g->digests[i]);
	} else if (item_has_content(it)) {
		cleanup_fd int fd = gate_item_open(it);

		r = fd < 0 ? fd : digest_file(fd, g->digests[i]);
	}
	if (r < 0 && r != -EACCES && r != -ENODATA) /* those are findings of their own */
		return fail(err, COVE_EIO, -r, "read the staged %s", it->change->path);
	g->digest_known[i] = 1;
	return 0;
}

int gate_seal(struct gate *g, size_t i, unsigned char ret[GATE_DIGEST],
	      struct cove_error *err)
{
	const struct gate_item *it = &g->items[i];
	const char *from = it->change->from ? it->change->from : "";
	const char *target = it->target && S_ISLNK(it->mode) ? it->target : "";
	crypto_generichash_state h;

	if (digest_of_item(g, i, err) < 0)
		return err->code;
	crypto_generichash_init(&h, NULL, 0, GATE_DIGEST);
	crypto_generichash_update(&h, (const unsigned char *)&it->mode, sizeof(it->mode));
	crypto_generichash_update(&h, (const unsigned char *)it->change->path,
				  strlen(it->change->path) + 1);
	crypto_generichash_update(&h, (const unsigned char *)from, strlen(from) + 1);
	crypto_generichash_update(&h, (const unsigned char *)target, strlen(target) + 1);
	crypto_generichash_update(&h, g->digests[i], GATE_DIGEST);
	crypto_generichash_final(&h, ret, GATE_DIGEST);
	return 0;
}

/* ---- programs ------------------------------------------------------------------- */

static const struct {
	const char *magic;
	size_t n;
	const char *name;
} programs[] = {
	{"\x7f"
	 "ELF",     4, "ELF"           },
	{"MZ",	       2, "PE"            },
	{"\xfe\xed\xfa\xce", 4, "Mach-O"        },
	{"\xfe\xed\xfa\xcf", 4, "Mach-O"        },
	{"\xce\xfa\xed\xfe", 4, "Mach-O"        },
	{"\xcf\xfa\xed\xfe", 4, "Mach-O"        },
	{"\xca\xfe\xba\xbe", 4, "Mach-O or Java"},
};

static int check_program(struct gate *g, size_t i, int fd, struct cove_error *err)
{
	char head[4];
	ssize_t n;

	if (!(g->items[i].mode & 0111))
		return 0;
	n = read_block(fd, head, sizeof(head), 0);
	if (n < 0)
		return gate_found(g, RULE_UNREADABLE, i, NULL, strerror((int)-n), err);
	for (size_t k = 0; k < ARRAY_LEN(programs); k++)
		if ((size_t)n >= programs[k].n &&
		    memcmp(head, programs[k].magic, programs[k].n) == 0)
			return gate_found(g, RULE_BINARY_EXECUTABLE, i, NULL,
					  programs[k].name, err);
	return 0;
}

/* ---- .gitattributes ------------------------------------------------------------- */

/* Those that git has built in, or that run nothing. */
static const char *const known_drivers[] = {
	"filter=lfs",  "diff=lfs",      "merge=lfs",     "merge=union", "merge=text",
	"merge=ours",  "merge=binary",  "diff=ada",      "diff=bash",   "diff=bibtex",
	"diff=cpp",    "diff=csharp",   "diff=css",      "diff=dts",    "diff=elixir",
	"diff=golang", "diff=fortran",  "diff=fountain", "diff=html",   "diff=java",
	"diff=kotlin", "diff=markdown", "diff=matlab",   "diff=objc",   "diff=pascal",
	"diff=perl",   "diff=php",      "diff=python",   "diff=ruby",   "diff=rust",
	"diff=scheme", "diff=tex",      "diff=binary",
};
static const char *const driver_kinds[] = {"filter=", "diff=", "merge="};

static bool is_word(const char *word, size_t n, const char *const *list, size_t count,
		    bool prefix)
{
	for (size_t k = 0; k < count; k++) {
		size_t len = strlen(list[k]);

		if ((prefix ? n >= len : n == len) && memcmp(word, list[k], len) == 0)
			return true;
	}
	return false;
}

/* Finds the first attribute that names an unknown driver; NULL if there is none. */
const char *gate_git_driver(const char *text, size_t len, size_t *ret_n)
{
	for (size_t at = 0; at < len;) {
		size_t n = 0;

		while (at < len && strchr(" \t\r\n", text[at]) && text[at])
			at++;
		while (at + n < len && !(strchr(" \t\r\n", text[at + n]) && text[at + n]))
			n++;
		if (is_word(text + at, n, driver_kinds, ARRAY_LEN(driver_kinds), true) &&
		    !is_word(text + at, n, known_drivers, ARRAY_LEN(known_drivers),
			     false)) {
			*ret_n = n;
			return text + at;
		}
		at += n;
	}
	return NULL;
}

static bool is_attributes(const char *path)
{
	static const char name[] = ".gitattributes";
	const char *slash = strrchr(path, '/');
	cleanup_buf struct buf key = BUF_INIT(1u << 16);

	path = slash ? slash + 1 : path;
	return gate_fold(&key, path, strlen(path)) < 0 ||
	       (key.len == sizeof(name) - 1 && memcmp(key.data, name, key.len) == 0);
}

static int check_attributes(struct gate *g, size_t i, int fd, struct cove_error *err)
{
	cleanup_free char *text = NULL;
	const char *word;
	char shown[64];
	size_t len = 0;
	ssize_t n;

	if (!is_attributes(g->items[i].change->path))
		return 0;
	text = malloc(ATTRIBUTES_MAX + 1);
	if (!text)
		return fail_nomem(err);
	n = read_block(fd, text, ATTRIBUTES_MAX + 1, 0);
	if (n < 0 || n > (ssize_t)ATTRIBUTES_MAX)
		return gate_found(g, RULE_GIT_DRIVER, i, NULL, "too large to look into",
				  err);
	word = gate_git_driver(text, (size_t)n, &len);
	if (!word)
		return 0;
	len = min_size(len, sizeof(shown) - 1);
	for (size_t k = 0; k < len; k++)
		shown[k] = word[k] > ' ' && word[k] < 0x7f ? word[k] : '?';
	shown[len] = '\0';
	return gate_found(g, RULE_GIT_DRIVER, i, NULL, shown, err);
}

/* ---- all of it ------------------------------------------------------------------ */

static bool has_capabilities(int fd)
{
	return fgetxattr(fd, "security.capability", NULL, 0) >= 0;
}

/* Most files are opened once only, for the scan. */
static bool is_worth_a_look(const struct gate_item *it)
{
	return it->mode & 0111 || it->change->what & COVE_WHAT_XATTR ||
	       is_attributes(it->change->path);
}

static int check_access(struct gate *g, size_t i, struct cove_error *err)
{
	const struct gate_item *it = &g->items[i];

	/* A mode alone needs no content; a giant is refused by its size. */
	if (!item_has_content(it) || it->size > g->max_file ||
	    (it->dir >= 0 && faccessat(it->dir, it->name, R_OK, AT_EACCESS) == 0))
		return 0;
	g->barred[i] = true;
	return gate_found(g, RULE_UNREADABLE, i, NULL,
			  it->dir < 0 ? "it was not copied" : strerror(errno), err);
}

int gate_check_content(struct gate *g, size_t i, struct cove_error *err)
{
	const struct gate_item *it = &g->items[i];

	if (check_access(g, i, err) < 0)
		return err->code;
	if (g->barred[i] || !is_worth_a_look(it))
		return 0;
	cleanup_fd int fd = gate_item_open(it);
	if (fd < 0) /* the scan opens it too, and says so */
		return 0;
	if (it->change->what & COVE_WHAT_XATTR && has_capabilities(fd) &&
	    gate_found(g, RULE_CAPABILITIES, i, NULL, NULL, err) < 0)
		return err->code;
	if (!item_has_content(it) && !(it->change->what & COVE_WHAT_MODE))
		return 0;
	if (check_program(g, i, fd, err) < 0)
		return err->code;
	return item_has_content(it) ? check_attributes(g, i, fd, err) : 0;
}
