/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets: where values come from, how they are kept, what stands for them, and that they
 * are in no text of ours. */
#include "core/secret.h"

#include "base/io.h"
#include "base/log.h"
#include "base/redact.h"
#include "base/util.h"
#include "tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define VALUE "ghp_abcdefghijklmnopqrstuvwxyz0123456789"

static char home[64];
static struct store store;

static void path_of(const char *name, char out[200])
{
	snprintf(out, 200, "%s/secrets/%s", home, name);
}

static int spec_of(struct spec *s, const char *yaml)
{
	cleanup_buf struct buf problems = BUF_INIT(4096);
	struct cove_error err = {0};

	spec_init(s);
	if (spec_parse(s, yaml, strlen(yaml), "t", &problems, &err) == 0)
		return 0;
	printf("# %s\n", problems.data ? problems.data : err.msg);
	return -1;
}

static int resolve(const char *yaml, const struct secret_given *given, size_t n,
		   struct secrets **ret, struct cove_error *err)
{
	struct spec s;
	int r = spec_of(&s, yaml);

	*ret = NULL;
	if (r == 0)
		r = secrets_resolve(ret, &store, &s, given, n, err);
	spec_clear(&s);
	return r;
}

/* ---- the store
 * -------------------------------------------------------------------------- */

static void keeps(void)
{
	struct cove_error err = {0};
	struct secret s = {0};
	char path[200], raw[4096];
	struct stat st;
	ssize_t n;
	json_t *list;

	OK(secret_store_get(&store, "NONE", &s, &err) == COVE_ENOENT, "nothing there");
	OK(secret_store_set(&store, "T", VALUE, strlen(VALUE), "a.test,*.b.test", &err) ==
		   0,
	   "set: %s", err.msg);
	path_of("T", path);
	OK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600, "0600");
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, raw, sizeof(raw));
	OK(n > 0 && !memmem(raw, (size_t)n, "ghp_", 4) &&
		   !memmem(raw, (size_t)n, "b.test", 6),
	   "neither value nor hosts are in the file");
	OK(secret_store_get(&store, "T", &s, &err) == 0 && s.n == strlen(VALUE) &&
		   strcmp(s.value, VALUE) == 0 && strcmp(s.hosts, "a.test,*.b.test") == 0,
	   "the same comes back");
	secret_clear(&s);
	list = secret_store_list(&store, &err);
	OK(json_array_size(list) == 1 && json_array_size(json_object_get(
						 json_array_get(list, 0), "hosts")) == 2,
	   "listed with its hosts");
	json_decref(list);
	OK(secret_store_set(&store, "../x", "v", 1, "", &err) == COVE_EINVAL,
	   "a name is no path");
	OK(secret_store_set(&store, "E", "", 0, "", &err) == COVE_EINVAL,
	   "no empty value");
}

static void flip(const char *path, off_t at)
{
	cleanup_fd int fd = open(path, O_RDWR | O_CLOEXEC);
	unsigned char c = 0;

	(void)!pread(fd, &c, 1, at);
	c ^= 1;
	(void)!pwrite(fd, &c, 1, at);
}

static void tampering(void)
{
	struct cove_error err = {0};
	struct secret s = {0};
	char path[200], other[200], key[200], away[200];
	struct stat st;
	unsigned accepted = 0;

	path_of("T", path);
	path_of("U", other);
	path_of(".key", key);
	path_of("key.away", away);
	if (stat(path, &st) < 0)
		st.st_size = 0;
	for (off_t at = 0; at < st.st_size; at++) {
		flip(path, at);
		if (secret_store_get(&store, "T", &s, &err) != COVE_EDAMAGED)
			accepted++;
		secret_clear(&s);
		flip(path, at);
	}
	OK(st.st_size > 0 && accepted == 0, "every flipped bit is refused");
	OK(secret_store_get(&store, "T", &s, &err) == 0, "and it is whole again");
	secret_clear(&s);
	OK(rename(path, other) == 0 &&
		   secret_store_get(&store, "U", &s, &err) == COVE_EDAMAGED,
	   "under another name: %s", err.msg);
	OK(rename(other, path) == 0 && chmod(path, 0644) == 0 &&
		   secret_store_get(&store, "T", &s, &err) == COVE_EDAMAGED,
	   "readable by others: %s", err.msg);
	chmod(path, 0600);
	OK(rename(key, away) == 0 &&
		   secret_store_get(&store, "T", &s, &err) == COVE_EDAMAGED,
	   "without its key: %s", err.msg);
	OK(secret_store_set(&store, "V", "12345678", 8, "", &err) == 0 &&
		   secret_store_get(&store, "T", &s, &err) == COVE_EDAMAGED,
	   "with another key: %s", err.msg);
	OK(rename(away, key) == 0 && secret_store_get(&store, "T", &s, &err) == 0,
	   "with the right one");
	secret_clear(&s);
	OK(chmod(key, 0640) == 0 &&
		   secret_store_get(&store, "T", &s, &err) == COVE_EDAMAGED,
	   "a key that others can read: %s", err.msg);
	chmod(key, 0600);
	OK(secret_store_remove(&store, "V", &err) == 0 &&
		   secret_store_remove(&store, "V", &err) == COVE_ENOENT,
	   "removed once");
}

static void keyring(void)
{
	struct cove_error err = {0};
	struct secret s = {0};
	char path[200];

	setenv("COVE_SECRET_KEY", "keyring", 1);
	if (secret_store_set(&store, "R", VALUE, strlen(VALUE), "", &err) < 0) {
		unsetenv("COVE_SECRET_KEY");
		SKIP("no kernel keyring here");
		return;
	}
	unsetenv("COVE_SECRET_KEY");
	OK(secret_store_get(&store, "R", &s, &err) == 0 && strcmp(s.value, VALUE) == 0,
	   "under a key in the kernel's keyring: %s", err.msg);
	secret_clear(&s);
	OK(secret_store_get(&store, "T", &s, &err) == 0,
	   "the other one still by its file");
	secret_clear(&s);
	path_of("R", path);
	flip(path, 60);
	OK(secret_store_get(&store, "R", &s, &err) == COVE_EDAMAGED, "a flipped bit");
	secret_store_remove(&store, "R", &err);
	setenv("COVE_SECRET_KEY", "moon", 1);
	OK(secret_store_set(&store, "R", "v", 1, "", &err) == COVE_EINVAL, "%s", err.msg);
	unsetenv("COVE_SECRET_KEY");
}

/* ---- sources
 * ---------------------------------------------------------------------------- */

static void source_is(const char *title, const char *yaml,
		      const struct secret_given *given, const char *value,
		      const char *label)
{
	struct cove_error err = {0};
	struct secrets *all = NULL;
	int r = resolve(yaml, given, given ? 1 : 0, &all, &err);

	OK(r == 0 && all && all->n == 1 && strcmp(all->v[0].value, value) == 0 &&
		   strcmp(all->v[0].source, label) == 0,
	   "%s: %s", title, r == 0 ? all->v[0].source : err.msg);
	secrets_free(all);
}

static void precedence(void)
{
	static const struct secret_given given = {"T", "from-stdin", 10};
	struct cove_error err = {0};
	struct secrets *all;
	char path[128], yaml[300];

	snprintf(path, sizeof(path), "%s/value", home);
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	write_all(fd, "from-file\r\n", 11);
	setenv("T", "from-env", 1);
	source_is("in hand", "secrets: ['T@a.test']", &given, "from-stdin",
		  "standard input");
	source_is("environment", "secrets: ['T@a.test']", NULL, "from-env",
		  "environment");
	source_is("from: stdin", "secrets: [{name: T, from: stdin, inject: env}]", &given,
		  "from-stdin", "standard input");
	source_is("from: store", "secrets: [{name: T, from: store}]", &given, VALUE,
		  "store");
	snprintf(yaml, sizeof(yaml),
		 "secrets: [{name: T, from: file, path: %s, inject: file}]", path);
	source_is("from: file, without its line break", yaml, &given, "from-file",
		  "file");
	source_is("from: command",
		  "secrets: [{name: T, from: command, command: [sh, -c, 'echo "
		  "from-command'], "
		  "inject: env}]",
		  &given, "from-command", "command");
	unsetenv("T");
	source_is("store", "secrets: [T]", NULL, VALUE, "store");
	OK(resolve("secrets: ['NOPE@a.test']", NULL, 0, &all, &err) < 0 &&
		   strstr(err.msg, "environment") && strstr(err.msg, "store") &&
		   strstr(err.msg, "standard input"),
	   "%s", err.msg);
	OK(resolve("secrets: [{name: T, from: env, inject: env}]", NULL, 0, &all, &err) <
		   0,
	   "from: env looks nowhere else: %s", err.msg);
	OK(resolve("secrets: [{name: T, from: stdin, inject: env}]", NULL, 0, &all,
		   &err) < 0 &&
		   strstr(err.hint, "--secret-stdin"),
	   "%s", err.hint);
	OK(resolve("secrets: [{name: T, from: command, command: [sh, -c, 'echo x; exit "
		   "3'], "
		   "inject: env}]",
		   NULL, 0, &all, &err) < 0 &&
		   strstr(err.msg, "exit code 3"),
	   "%s", err.msg);
	OK(resolve("secrets: [{name: T, from: file, path: /nonexistent, inject: env}]",
		   NULL, 0, &all, &err) < 0,
	   "%s", err.msg);
	setenv("T", "value-without-hosts", 1);
	OK(resolve("secrets: [{name: T}]", NULL, 0, &all, &err) < 0 && *err.hint,
	   "no hosts: %s", err.msg);
	unsetenv("T");
	OK(resolve("network: {mode: none}", NULL, 0, &all, &err) == 0 && !all, "none");
}

static void fills_the_spec(void)
{
	struct cove_error err = {0};
	struct secrets *all = NULL;
	struct spec s;

	spec_of(&s, "secrets: [T]");
	OK(secrets_resolve(&all, &store, &s, NULL, 0, &err) == 0 &&
		   secrets_fill_spec(all, &s, &err) == 0,
	   "hosts that the store knows");
	OK(json_array_size(json_object_get(json_array_get(s.secrets, 0), "hosts")) == 2,
	   "are in the spec that the policy is made of");
	secrets_free(all);
	spec_clear(&s);
}

/* ---- placeholders
 * ------------------------------------------------------------------------ */

static const struct shape {
	const char *value, *prefix;
} shapes[] = {
	{"sk-ant-api03-0123456789abcdef0123456789abcdef01234", "sk-ant-api03-"},
	{"acme_v1_9f8e7d6c5b4a39281706f5e4d3c2b1a0",           "acme_v1_"     },
	{VALUE,						"ghp_"         },
	{"AKIAIOSFODNN7EXAMPLE",                               "AKIA"         },
	{"xoxb-123456789012-1234567890123-abcdefghijkl",       "xoxb-"        },
	{"550e8400-e29b-41d4-a716-446655440000",               ""             },
	{"correct-horse-battery-staple-and-more",              ""             },
	{"0123456789abcdef",				   ""             },
	{"tiny",					       ""             },
	{"line\nbreak and \"quotes\" in it",                   ""             },
};

static char *placeholder(const char *value, int record)
{
	struct secret one = {.n = strlen(value)};
	struct secrets all = {&one, 1};
	struct cove_error err = {0};
	char *p;

	one.name = strdup("T");
	one.hosts = strdup("h");
	one.value = secret_alloc(one.n);
	memcpy(one.value, value, one.n);
	if (secrets_placeholders(&all, record, &err) < 0)
		printf("# %s\n", err.msg);
	p = take_ptr(one.placeholder);
	secret_clear(&one);
	return p;
}

static void placeholders(void)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		const struct shape *s = &shapes[i];
		cleanup_free char *a = placeholder(s->value, -1);
		cleanup_free char *b = placeholder(s->value, -1);
		size_t n = strlen(s->value) < 16 ? 16 : strlen(s->value);
		size_t k = strlen(s->prefix);

		OK(a && b && strlen(a) == n && strcmp(a, b) != 0 &&
			   strcmp(a, s->value) != 0 && strncmp(a, s->prefix, k) == 0 &&
			   strspn(a,
				  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				  "0123456789_-") == n,
		   "shape %zu: %s", i, a);
	}
}

static void stable(void)
{
	cleanup_fd int dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_free char *a = placeholder(VALUE, dir), *b = placeholder(VALUE, dir);
	cleanup_free char *c = NULL, *d = NULL;
	struct stat st;

	OK(a && b && strcmp(a, b) == 0, "the same again from the record");
	OK(fstatat(dir, "placeholders.json", &st, 0) == 0 && (st.st_mode & 07777) == 0600,
	   "which is 0600");
	c = placeholder(a, dir);
	OK(c && strcmp(c, a) != 0, "never the value itself");
	(void)!write_file_atomic(dir, "placeholders.json", "{oops", 5, 0600, 0);
	d = placeholder(VALUE, dir);
	OK(d && strcmp(d, a) != 0, "a damaged file is made anew");
}

/* ---- passing on
 * -------------------------------------------------------------------------- */

static void passes(void)
{
	struct cove_error err = {0};
	struct secrets *all = NULL, *got = NULL;
	cleanup_fd int fd = -1;
	cleanup_fd int other = -1;

	resolve("secrets: [T, {name: T2, from: command, command: [printf, 'a\\000b'], "
		"inject: file}]",
		NULL, 0, &all, &err);
	OK(all && secrets_placeholders(all, -1, &err) == 0 &&
		   secrets_send(all, &fd, &err) == 0,
	   "sent: %s", err.msg);
	OK(fd >= 0 && write(fd, "x", 1) < 0 && ftruncate(fd, 0) < 0, "sealed");
	OK(fd >= 0 && secrets_receive(&got, fd, &err) == 0 && got->n == 2 &&
		   strcmp(got->v[0].value, VALUE) == 0 &&
		   strcmp(got->v[0].placeholder, all->v[0].placeholder) == 0 &&
		   strcmp(got->v[0].hosts, "a.test,*.b.test") == 0 &&
		   strcmp(got->v[0].source, "store") == 0,
	   "the same arrives: %s", err.msg);
	OK(got && got->v[1].inject == INJECT_FILE && got->v[1].n == 3 &&
		   memcmp(got->v[1].value, "a\0b", 3) == 0 && !got->v[1].placeholder,
	   "also with a NUL byte");
	secrets_free(got);
	secrets_free(all);
	other = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	OK(secrets_receive(&got, other, &err) == COVE_EPROTO, "nothing else is taken");
}

/* ---- redaction
 * --------------------------------------------------------------------------- */

static char last_line[600];

static void take_line(void *arg, int level, const char *line)
{
	(void)arg;
	(void)level;
	snprintf(last_line, sizeof(last_line), "%s", line);
}

static void redacts(void)
{
	struct cove_error err = {0};
	char *text = strdup("x " VALUE " y"), big[800];
	cleanup_buf struct buf out = BUF_INIT(4096);

	redact_clear();
	fail(&err, COVE_EIO, 0, "%s", VALUE);
	OK(strcmp(err.msg, VALUE) == 0, "nothing is known: nothing is changed");
	redact_add("T", VALUE, strlen(VALUE));
	redact_add("Q", "with \"quotes\"\n", 14);
	redact_add("S", "five5", 5);
	redact_add("X", "abc", 3);
	fail(&err, COVE_EIO, ENOENT, "open %s", VALUE);
	OK(strcmp(err.msg, "open [T]: No such file or directory") == 0, "%s", err.msg);
	wrap(&err, "key %s", VALUE);
	OK(strncmp(err.msg, "key [T]: open [T]", 17) == 0, "%s", err.msg);
	hint(&err, "use %s", VALUE);
	OK(strcmp(err.hint, "use [T]") == 0, "%s", err.hint);
	log_set(take_line, NULL);
	log_line(LOG_ERROR, "five5 abc %s%s", VALUE, VALUE);
	OK(strcmp(last_line, "[S] abc [T][T]") == 0, "%s", last_line);
	log_set(NULL, NULL);
	OK(redact_string(&text) == 0 && strcmp(text, "x [T] y") == 0, "%s", text);
	free(text);
	text = strdup("{\"a\":\"with \\\"quotes\\\"\\n\"}");
	OK(redact_string(&text) == 0 && strcmp(text, "{\"a\":\"[Q]\"}") == 0, "%s", text);
	free(text);
	memset(big, 'x', sizeof(big));
	snprintf(big + 570, sizeof(big) - 570, "%s", VALUE);
	fail(&err, COVE_EIO, 0, "%s", big);
	OK(!strstr(err.msg, "ghp_"), "a value that the end of the message cuts");
	OK(redact_safe("abc ghp_abc", 11) == 4 && redact_safe("abc ghp_x", 9) == 9,
	   "the possible beginning of one");
	OK(redact_safe("abc fiv", 7) == 4 && redact_safe("abc five", 8) == 4 &&
		   redact_safe("abc five5", 9) == 9,
	   "also of a short one");
	OK(redact_bytes("\0" VALUE, strlen(VALUE) + 1, &out) == 0 && out.len == 4,
	   "bytes with NUL");
	for (int i = 0; i < REDACT_MAX + 10; i++) {
		char value[32];

		snprintf(value, sizeof(value), "number-%d-of-many", i);
		redact_add("M", value, strlen(value));
	}
	fail(&err, COVE_EIO, 0, "number-265-of-many number-5-of-many");
	OK(strcmp(err.msg, "[M] number-5-of-many") == 0,
	   "bounded: the oldest is forgotten");
	redact_clear();
	OK(redact_empty(), "and all of it");
}

/* A text full of one short value, and another that is not in it. */
static void redacts_fast(void)
{
	size_t n = 1 << 20;
	cleanup_free char *text = malloc(n);
	cleanup_buf struct buf out = BUF_INIT(1 << 24);
	clock_t begin = clock();

	redact_clear();
	redact_add("A", "12345", 5);
	redact_add("B", "67890", 5);
	for (size_t i = 0; i < n; i++)
		text[i] = "12345"[i % 5];
	OK(redact_bytes(text, n, &out) == 0 && !memmem(out.data, out.len, "12345", 5),
	   "a text full of a value");
	OK(clock() - begin < 2 * CLOCKS_PER_SEC, "in time: %.2f s",
	   (double)(clock() - begin) / CLOCKS_PER_SEC);
	redact_clear();
}

/* Whose placeholder is it, if one is part of another? A file that says so is not used. */
static void apart(void)
{
	static const char file[] = "{\"A\": \"aaaabbbbccccdddd\", \"B\": "
				   "\"xaaaabbbbccccddddx\", \"C\": \"aaaabbbbccccdddd\"}";
	char name[3][2] = {"A", "B", "C"}, value[] = "0123456789abcdef";
	cleanup_fd int dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct secret v[3] = {0};
	struct secrets all = {v, 3};
	struct cove_error err = {0};

	for (int i = 0; i < 3; i++)
		v[i] = (struct secret){.name = name[i], .value = value, .n = 16};
	(void)!write_file_atomic(dir, "placeholders.json", file, strlen(file), 0600, 0);
	OK(secrets_placeholders(&all, dir, &err) == 0 &&
		   strcmp(v[0].placeholder, "aaaabbbbccccdddd") == 0 &&
		   !strstr(v[1].placeholder, v[0].placeholder) &&
		   strcmp(v[2].placeholder, v[0].placeholder) != 0,
	   "placeholders are not parts of each other");
	unlinkat(dir, "placeholders.json", 0);
	for (int i = 0; i < 3; i++)
		free(v[i].placeholder);
}

int main(void)
{
	struct cove_error err = {0};

	snprintf(home, sizeof(home), "/tmp/cove-secret-test.%d", (int)getpid());
	setenv("COVE_HOME", home, 1);
	setenv("XDG_RUNTIME_DIR", home, 1);
	mkdir(home, 0700);
	OK(store_open(&store, &err) == 0, "a store: %s", err.msg);
	keeps();
	tampering();
	keyring();
	precedence();
	fills_the_spec();
	placeholders();
	stable();
	apart();
	passes();
	redacts();
	redacts_fast();
	store_close(&store);
	remove_tree_at(AT_FDCWD, home);
	return tap_done();
}
