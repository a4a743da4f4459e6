/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan-db-gen - checks the built-in rules of the secret scan and compiles them for
 * Hyperscan.
 *
 *	scan-db-gen RULES OUTDIR
 *
 * Writes OUTDIR/scan_db.h and beside it one database for each kind of processor. A
 * build-time tool: compiling takes a second, loading what it wrote less than one
 * millisecond. Without Hyperscan (SCAN_HYPERSCAN undefined) it only checks.
 */
#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"
#include "scan/rules.h"

#include <fcntl.h>
#include <stdio.h>

static int die(const char *what, const char *why)
{
	fprintf(stderr, "scan-db-gen: %s: %s\n", what, why);
	return 1;
}

static int write_file(const char *path, const char *data, size_t len)
{
	FILE *f = fopen(path, "wb");

	if (!f)
		return die(path, strerror(errno));
	if (fwrite(data, 1, len, f) != len) {
		fclose(f);
		return die(path, "cannot be written");
	}
	return fclose(f) == 0 ? 0 : die(path, strerror(errno));
}

/* Everything that is compiled only when it is first needed, now. */
static int check_lists(struct allowlists *l, struct cove_error *err)
{
	for (size_t i = 0; i < l->n; i++) {
		for (size_t j = 0; j < l->v[i].regexes.n; j++)
			if (pattern_compile(&l->v[i].regexes.v[j], err) < 0)
				return err->code;
		for (size_t j = 0; j < l->v[i].paths.n; j++)
			if (pattern_compile(&l->v[i].paths.v[j], err) < 0)
				return err->code;
	}
	return 0;
}

static int check_rules(struct rules *r, struct cove_error *err)
{
	if (check_lists(&r->allow, err) < 0)
		return wrap(err, "allowlist");
	for (size_t i = 0; i < r->n; i++) {
		struct rule *rule = &r->rule[i];

		if ((rule->regex.source && pattern_compile(&rule->regex, err) < 0) ||
		    (rule->path.source && pattern_compile(&rule->path, err) < 0) ||
		    check_lists(&rule->allow, err) < 0)
			return wrap(err, "rule %s", rule->id);
		if (!*rule->what)
			return fail(err, COVE_EINVAL, 0, "rule %s: no description",
				    rule->id);
	}
	return 0;
}

#ifdef SCAN_HYPERSCAN
#include <hs/hs.h>

static const struct cpu {
	const char *name;
	unsigned long long features;
} targets[] = {
	{"avx2", HS_CPU_FEATURES_AVX2},
	{"any",  0		   },
};

/* Which rules the database has; the others are PCRE2's. */
static unsigned pick(const struct rules *r, const char **text, unsigned *id)
{
	unsigned n = 0;

	for (size_t i = 0; i < r->n; i++) {
		const char *hs = r->rule[i].regex.re.hs;
		hs_compile_error_t *why;
		hs_database_t *db;

		if (!r->rule[i].regex.source || !hs)
			continue;
		if (hs_compile(hs, 0, HS_MODE_BLOCK, NULL, &db, &why) != HS_SUCCESS) {
			fprintf(stderr, "scan-db-gen: %s: left to PCRE2: %s\n",
				r->rule[i].id, why->message);
			hs_free_compile_error(why);
			continue;
		}
		hs_free_database(db);
		text[n] = hs;
		id[n++] = (unsigned)i;
	}
	return n;
}

static int write_db(const char *dir, const struct cpu *t, const char *const *text,
		    const unsigned *flags, const unsigned *id, unsigned n)
{
	hs_platform_info_t platform = {.cpu_features = t->features};
	hs_compile_error_t *why;
	hs_database_t *db;
	char path[4096], *data;
	size_t len;
	int r;

	if (hs_compile_multi(text, flags, id, n, HS_MODE_BLOCK, &platform, &db, &why) !=
	    HS_SUCCESS)
		return die(t->name, why->message);
	if (hs_serialize_database(db, &data, &len) != HS_SUCCESS)
		return die(t->name, "cannot be serialized");
	snprintf(path, sizeof(path), "%s/scan-%s.db", dir, t->name);
	r = write_file(path, data, len);
	free(data);
	hs_free_database(db);
	return r;
}

/* The files are pulled in by the assembler: as text they would be megabytes. */
static void print_blob(struct buf *b, const char *symbol, const char *path)
{
	buf_printf(b,
		   "__asm__(\".section .rodata\\n.balign 64\\n.globl %s\\n%s:\\n\"\n"
		   "\t\".incbin \\\"%s\\\"\\n.globl %s_end\\n%s_end:\\n.byte 0\\n"
		   ".previous\\n\");\n"
		   "extern const char %s[], %s_end[];\n",
		   symbol, symbol, path, symbol, symbol, symbol, symbol);
}

static int write_dbs(const struct rules *r, const char *dir, struct buf *b)
{
	cleanup_free const char **text = calloc(r->n + 1, sizeof(*text));
	cleanup_free unsigned *id = calloc(r->n + 1, sizeof(*id));
	cleanup_free unsigned *flags = calloc(r->n + 1, sizeof(*flags));
	char path[4096], symbol[64];
	unsigned n;

	if (!text || !id || !flags)
		return die("memory", "there is none");
	n = pick(r, text, id);
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		if (write_db(dir, &targets[i], text, flags, id, n) != 0)
			return 1;
		snprintf(path, sizeof(path), "%s/scan-%s.db", dir, targets[i].name);
		snprintf(symbol, sizeof(symbol), "scan_db_%s", targets[i].name);
		print_blob(b, symbol, path);
	}
	buf_printf(
		b,
		"static const struct {\n\tconst char *start, *end;\n} scan_dbs[] = {\n");
	for (size_t i = 0; i < ARRAY_LEN(targets); i++)
		buf_printf(b, "\t{scan_db_%s, scan_db_%s_end},\n", targets[i].name,
			   targets[i].name);
	buf_printf(b, "};\n#define SCAN_DB_RULES %zu\n", r->n);
	buf_printf(b, "static const unsigned char scan_db_has[] = {");
	for (size_t i = 0, j = 0; i < r->n; i++) {
		bool has = j < n && id[j] == i;

		j += has;
		buf_printf(b, "%s%d,", i % 32 ? " " : "\n\t", has);
	}
	buf_printf(b, "\n};\n");
	return 0;
}
#else
static int write_dbs(const struct rules *r, const char *dir, struct buf *b)
{
	(void)r;
	(void)dir;
	(void)b;
	return 0;
}
#endif

int main(int argc, char **argv)
{
	cleanup_buf struct buf text = BUF_INIT(8u << 20), out = BUF_INIT(8u << 20);
	struct cove_error err = {0};
	struct rules r;
	char path[4096];
	int rc;

	if (argc != 3)
		return die("usage", "scan-db-gen RULES OUTDIR");
	rc = read_file_at(AT_FDCWD, argv[1], &text);
	if (rc < 0)
		return die(argv[1], strerror(-rc));
	if (rules_load(&r, text.data, text.len, "", 0, &err) < 0 ||
	    check_rules(&r, &err) < 0)
		return die(argv[1], err.msg);
	buf_printf(&out, "/* Made by scan-db-gen from %s; not to be edited. */\n",
		   argv[1]);
	if (write_dbs(&r, argv[2], &out) != 0)
		return 1;
	rules_clear(&r);
	snprintf(path, sizeof(path), "%s/scan_db.h", argv[2]);
	return write_file(path, out.data, out.len);
}
