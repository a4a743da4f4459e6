/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's own secrets at the gate: the exact value in every encoding is found in
 * contents, names and targets, nothing of it is shown, and another value passes.
 */
#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"
#include "tap.h"
#include "work/gate.h"

#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <sys/mman.h>

static const char value[] = "kR7/tQ2+mX v9\"Lb&Kc4=Zw8";
static const char other[] = "kR7/tQ2+mX w9\"Lb&Kc4=Zw8"; /* in the middle */

static char top[64];
static int stage;
static struct layer layer;
static struct layers layers = {&layer, 1, -1, false};

/* ---- one file, one answer ------------------------------------------------------- */

/* How many findings; -1: the value itself was shown. */
static int judge(const struct gate_item *item, const char *rules)
{
	const char *const secrets[] = {value};
	const size_t lens[] = {sizeof(value) - 1};
	struct gate_config c = {.secrets = secrets,
				.secret_lens = lens,
				.n_secrets = 1,
				.rules_toml = rules,
				.rules_len = rules ? strlen(rules) : 0};
	struct findings f = {0};
	struct cove_error err = {0};
	int n;

	if (gate_run(&layers, &c, item, 1, &f, &err) < 0) {
		printf("# %s\n", err.msg);
		return -2;
	}
	n = (int)f.open;
	for (size_t i = 0; i < f.n; i++) {
		if (strstr(f.v[i].excerpt, value) || strstr(f.v[i].why, value))
			n = -1;
		if (strncmp(f.v[i].rule, "scan-", 5) == 0)
			printf("# %s: %s\n", f.v[i].rule, f.v[i].why);
	}
	findings_clear(&f);
	return n;
}

static int judge_content(const struct buf *b)
{
	char path[] = "notes";
	struct change c = {
		.path = path,
		.kind = COVE_ADDED,
		.what = COVE_WHAT_CONTENT,
		.new = {.mode = S_IFREG | 0644, .size = b->len}
        };
	struct gate_item item = {&c, stage, "0", S_IFREG | 0644, b->len, NULL};
	cleanup_fd int fd =
		openat(stage, "0", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write_all(fd, b->data, b->len) < 0)
		abort();
	return judge(&item, NULL);
}

static int judge_name(const char *name, const char *target)
{
	cleanup_free char *path = strdup(name);
	uint32_t mode = target ? S_IFLNK | 0777 : S_IFDIR | 0755;
	struct change c = {.path = path, .kind = COVE_ADDED, .new = {.mode = mode}};
	struct gate_item item = {&c, -1, "", mode, 0, target};

	return path ? judge(&item, NULL) : -2;
}

/* ---- encodings ------------------------------------------------------------------ */

static void plain(struct buf *b, const char *v)
{
	buf_printf(b, "int x; // %s\n", v);
}

static void base64(struct buf *b, const char *v, const char *before)
{
	char text[128], out[256];
	int n = snprintf(text, sizeof(text), "%s%s and so on", before, v);

	sodium_bin2base64(out, sizeof(out), (unsigned char *)text, (size_t)n,
			  sodium_base64_VARIANT_ORIGINAL);
	buf_printf(b, "data: %s\n", out);
}

static void base64_0(struct buf *b, const char *v)
{
	base64(b, v, "");
}

static void base64_1(struct buf *b, const char *v)
{
	base64(b, v, "x");
}

static void base64_2(struct buf *b, const char *v)
{
	base64(b, v, "xy");
}

static void hex(struct buf *b, const char *v)
{
	for (; *v; v++)
		buf_printf(b, "%02x", (unsigned char)*v);
}

static void hex_upper(struct buf *b, const char *v)
{
	for (; *v; v++)
		buf_printf(b, "%02X", (unsigned char)*v);
}

static void url(struct buf *b, const char *v)
{
	buf_puts(b, "https://h/?q=");
	for (; *v; v++)
		buf_printf(b,
			   (*v >= '0' && *v <= '9') || (*v >= 'A' && *v <= 'z')
				   ? "%c"
				   : "%%%02X",
			   *v);
}

static void json(struct buf *b, const char *v)
{
	buf_puts(b, "{\"k\": \"");
	for (; *v; v++)
		buf_printf(b, *v == '"' || *v == '/' ? "\\%c" : "%c", *v);
	buf_puts(b, "\"}\n");
}

static void lines(struct buf *b, const char *v)
{
	buf_printf(b, "%.9s\n%.8s\n%s\n", v, v + 9, v + 17);
}

static void utf16(struct buf *b, const char *v)
{
	buf_append(b, "\xff\xfe", 2);
	for (; *v; v++) {
		buf_append(b, v, 1);
		buf_append(b, "", 1);
	}
}

static void utf16_big(struct buf *b, const char *v)
{
	buf_append(b, "\xfe\xff", 2);
	for (; *v; v++) {
		buf_append(b, "", 1);
		buf_append(b, v, 1);
	}
}

static void in_binary(struct buf *b, const char *v)
{
	buf_append(b, "\x7f\0\1\2\0\0", 6);
	buf_puts(b, v);
	buf_append(b, "\0\0\0", 3);
}

static void far_in(struct buf *b, const char *v)
{
	for (int i = 0; i < 40000; i++)
		buf_puts(b, "nothing to be seen here, only a line of text\n");
	buf_puts(b, v);
}

static const struct {
	const char *what;
	void (*write)(struct buf *b, const char *v);
} encodings[] = {
	{"plain",             plain    },
	{"base64, 1st",       base64_0 },
	{"base64, 2nd",       base64_1 },
	{"base64, 3rd",       base64_2 },
	{"hex",               hex      },
	{"HEX",               hex_upper},
	{"URL",               url      },
	{"JSON",              json     },
	{"split over lines",  lines    },
	{"UTF-16",            utf16    },
	{"UTF-16 big endian", utf16_big},
	{"binary",            in_binary},
	{"far in",            far_in   },
};

static void contents(void)
{
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		cleanup_buf struct buf b = BUF_INIT(4u << 20), c = BUF_INIT(4u << 20);
		int n, m;

		encodings[i].write(&b, value);
		encodings[i].write(&c, other);
		n = judge_content(&b);
		m = judge_content(&c);
		OK(n > 0, "found: %s (%d)", encodings[i].what, n);
		OK(m == 0, "another value passes: %s (%d)", encodings[i].what, m);
	}
}

static void names(void)
{
	OK(judge_name("dir kR7 tQ2", NULL) == 0, "a name");
	OK(judge_name(value, NULL) > 0, "the value as a path");
	OK(judge_name("link", "a") == 0, "a target");
	OK(judge_name("link", value) > 0, "the value as a target");
}

/* Rules that cannot be read are a finding, never a pass. */
static void failures(void)
{
	char path[] = "f";
	struct change c = {
		.path = path, .kind = COVE_ADDED, .new = {.mode = S_IFDIR | 0755}};
	struct gate_item item = {&c, -1, "", S_IFDIR | 0755, 0, NULL};

	OK(judge(&item, NULL) == 0, "it passes");
	OK(judge(&item, "[[rules") > 0, "with rules that are wrong it does not");
}

static bool find_scanner(void)
{
	char file[PATH_MAX] = "";
	ssize_t n = readlink("/proc/self/exe", file, sizeof(file) - 1);
	char *slash = n > 0 ? strrchr(file, '/') : NULL;

	if (!slash)
		return false;
	snprintf(slash, (size_t)(file + sizeof(file) - slash), "/../cove-scan");
	setenv("COVE_SCAN", file, 1);
	return access(file, X_OK) == 0;
}

int main(void)
{
	if (!find_scanner()) {
		SKIP("cove-scan is not built");
		return tap_done();
	}
	snprintf(top, sizeof(top), "/tmp/cove-gate.XXXXXX");
	if (sodium_init() < 0 || !mkdtemp(top))
		abort();
	stage = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	layer = (struct layer){.source = top, .lower = stage, .dir = -1, .upper = -1};
	contents();
	names();
	failures();
	close(stage);
	remove_tree_at(AT_FDCWD, top);
	return tap_done();
}
