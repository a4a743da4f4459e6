/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: whatever is done to it is found, and nothing that cove does breaks it.
 */
#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"
#include "core/audit_impl.h"
#include "tap.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static char home[] = "/tmp/cove-audit-XXXXXX";
static struct store st;
static char dir[300];

/* ---- making logs ----------------------------------------------------------------- */

static int record_fd(void)
{
	return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void fresh(void)
{
	remove_tree_at(st.boxes, "box");
	if (mkdirat(st.boxes, "box", 0700) < 0)
		perror("mkdir");
	snprintf(dir, sizeof(dir), "%s/sandboxes/box", home);
}

static int put(const char *event)
{
	struct cove_error err = {0};
	int r = audit_log(&st, "box", event, json_pack("{s:s}", "what", "é \"x\" \n"),
			  &err);

	if (r < 0)
		printf("# %s\n", err.msg);
	return r;
}

static void fill(int n)
{
	fresh();
	for (int i = 0; i < n; i++)
		put("exec");
}

/* The whole file, to be changed and written back. */
static void load(const char *name, struct buf *b)
{
	cleanup_fd int d = record_fd();

	buf_clear(b);
	read_file_at(d, name, b);
}

static void save(const char *name, const void *data, size_t n)
{
	cleanup_fd int d = record_fd();
	cleanup_fd int fd =
		openat(d, name, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);

	write_all(fd, data, n);
}

static int verify(uint64_t *n, struct cove_error *err)
{
	*err = (struct cove_error){0};
	return audit_verify(&st, "box", n, err);
}

/* Start of line i, from 0; line count gives the end. */
static char *line_at(struct buf *b, int i)
{
	char *p = b->data;

	while (i-- > 0)
		p = strchr(p, '\n') + 1;
	return p;
}

static void finds(const char *what, const char *part)
{
	struct cove_error err;
	uint64_t n;
	int r = verify(&n, &err);

	OK(r == COVE_EDAMAGED && strstr(err.msg, part), "%s: found: %s", what, err.msg);
}

static bool whole(uint64_t want)
{
	struct cove_error err;
	uint64_t n = 0;
	int r = verify(&n, &err);

	if (r < 0 || n != want)
		printf("# %llu records, %s\n", (unsigned long long)n, err.msg);
	return r == 0 && n == want;
}

/* ---- tests ----------------------------------------------------------------------- */

static int count_lines(void *arg, const char *line, size_t n)
{
	struct audit_record r;

	if (audit_parse(line, n, &r) == 0)
		++*(int *)arg;
	return 0;
}

static void what_is_written_is_whole(void)
{
	struct cove_error err = {0};
	int seen = 0;

	fresh();
	OK(whole(0), "no log is whole");
	fill(5);
	OK(whole(5), "five records");
	OK(audit_read(&st, "box", 0, count_lines, &seen, &err) == 6 && seen == 5,
	   "are read");
	seen = 0;
	OK(audit_read(&st, "box", 4, count_lines, &seen, &err) == 6 && seen == 2,
	   "from a number on");
	OK(audit_read(&st, "box", UINT64_MAX, count_lines, &seen, &err) == 6,
	   "how many there are");
	OK(audit_read(&st, "none", 0, count_lines, &seen, &err) == COVE_ENOENT,
	   "no such sandbox");
	OK(audit_verify(&st, "../box", NULL, &err) == COVE_EINVAL, "no such name");
}

static void every_flipped_byte_is_found(void)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 20);
	int missed = 0, misplaced = 0;
	struct cove_error err;
	uint64_t n;

	fill(3);
	load(AUDIT_LOG, &b);
	size_t second = (size_t)(line_at(&b, 1) - b.data);
	size_t third = (size_t)(line_at(&b, 2) - b.data);
	for (size_t i = second; i + 1 < third; i++) {
		b.data[i] ^= 1;
		save(AUDIT_LOG, b.data, b.len);
		b.data[i] ^= 1;
		missed += verify(&n, &err) != COVE_EDAMAGED;
		misplaced += !strstr(err.msg, "audit.jsonl line 2");
	}
	OK(missed == 0, "a flipped bit in any byte of a record is found");
	OK(misplaced == 0, "and its line is named");
	save(AUDIT_LOG, b.data, b.len);
	OK(whole(3), "as it was it is whole");
	b.data[third - 1] = ' ';
	save(AUDIT_LOG, b.data, b.len);
	finds("two lines joined", "line 2");
}

static void lines_removed_moved_copied(void)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 20), c = BUF_INIT(1 << 20);
	char *l1, *l2, *l3, *end;

	fill(4);
	load(AUDIT_LOG, &b);
	l1 = line_at(&b, 1);
	l2 = line_at(&b, 2);
	l3 = line_at(&b, 3);
	end = b.data + b.len;

	buf_append(&c, b.data, (size_t)(l1 - b.data));
	buf_append(&c, l2, (size_t)(end - l2));
	save(AUDIT_LOG, c.data, c.len);
	finds("a line dropped",
	      "line 2: record 3 stands where record 2 should be: record "
	      "2 was removed");

	buf_clear(&c);
	buf_append(&c, b.data, (size_t)(l1 - b.data));
	buf_append(&c, l2, (size_t)(l3 - l2));
	buf_append(&c, l1, (size_t)(l2 - l1));
	buf_append(&c, l3, (size_t)(end - l3));
	save(AUDIT_LOG, c.data, c.len);
	finds("two lines swapped", "the order was changed");

	buf_clear(&c);
	buf_append(&c, b.data, (size_t)(l2 - b.data));
	buf_append(&c, l1, (size_t)(end - l1));
	save(AUDIT_LOG, c.data, c.len);
	finds("a line twice", "line 3: record 2 stands where record 3 should be");

	save(AUDIT_LOG, l1, (size_t)(end - l1));
	finds("the first line dropped", "the beginning is missing");

	buf_clear(&c);
	buf_append(&c, b.data, (size_t)(l2 - b.data));
	buf_puts(&c, "\n");
	buf_append(&c, l2, (size_t)(end - l2));
	save(AUDIT_LOG, c.data, c.len);
	finds("an empty line", "line 3: is not a record");
}

static void a_cut_tail_is_found(void)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 20);
	struct cove_error err;
	uint64_t n;
	int missed = 0;

	fill(4);
	load(AUDIT_LOG, &b);
	for (size_t i = 0; i < b.len; i++) {
		save(AUDIT_LOG, b.data, i);
		missed += verify(&n, &err) != COVE_EDAMAGED;
	}
	OK(missed == 0, "a log cut at any byte is found");
	save(AUDIT_LOG, b.data, (size_t)(line_at(&b, 2) - b.data));
	finds("two records cut off", "the last record is 2, the head knows 4");
	put("exec");
	finds("after the next record too", "records 3 to 4 were cut off");
}

static void the_head_is_guarded(void)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 20), old = BUF_INIT(1 << 20);
	cleanup_fd int d = -1;

	fill(3);
	load(AUDIT_HEAD, &old);
	put("exec");
	OK(whole(4), "whole");
	save(AUDIT_HEAD, old.data, old.len);
	OK(whole(4), "a head that lags behind is what a killed writer leaves");
	put("exec");
	OK(whole(5), "and the next record mends it");
	load(AUDIT_HEAD, &b);
	for (size_t i = 0; i < b.len; i += AUDIT_SLOT)
		b.data[i + 8] ^= 1;
	save(AUDIT_HEAD, b.data, b.len);
	finds("an edited head", AUDIT_HEAD);
	d = record_fd();
	unlinkat(d, AUDIT_HEAD, 0);
	finds("no head", AUDIT_HEAD " is missing");
	fill(1);
	close_fd(&d);
	d = record_fd();
	unlinkat(d, AUDIT_HEAD, 0);
	OK(whole(1), "a writer killed after the very first record");
}

static void a_torn_record_is_mended(void)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 20), c = BUF_INIT(1 << 20);
	struct cove_error err = {0};
	int bad = 0, seen = 0;
	size_t last;

	fill(3);
	load(AUDIT_LOG, &b);
	load(AUDIT_HEAD, &c);
	last = b.len;
	put("exec"); /* the one that will be torn */
	load(AUDIT_LOG, &b);
	for (size_t i = last + 1; i < b.len; i += 7) {
		save(AUDIT_LOG, b.data, i);
		save(AUDIT_HEAD, c.data, c.len);
		bad += !whole(3);
		put("exec");
		bad += !whole(5); /* "recovered" and the new one */
	}
	OK(bad == 0, "half a record is no harm, and the next writer cuts it off");
	load(AUDIT_LOG, &c);
	OK(strstr(c.data, "\"event\":\"recovered\",\"tornBytes\":"), "and says so");
	OK(audit_read(&st, "box", 0, count_lines, &seen, &err) == 6 && seen == 5,
	   "it can be read");
	/* somebody wrote nonsense: it stays, and is named */
	buf_puts(&c, "nonsense\n");
	save(AUDIT_LOG, c.data, c.len);
	put("exec");
	load(AUDIT_LOG, &c);
	OK(strstr(c.data, "nonsense\n{"), "whole lines are never removed");
	finds("nonsense", "line 6: is not a record");
}

static void another_key_and_another_name(void)
{
	char path[300];

	fill(2);
	if (renameat(st.boxes, "box", st.boxes, "other") < 0)
		perror("rename");
	fresh();
	remove_tree_at(st.boxes, "box");
	if (renameat(st.boxes, "other", st.boxes, "box") < 0)
		perror("rename");
	OK(whole(2), "moved away and back");
	struct cove_error err = {0};
	if (renameat(st.boxes, "box", st.boxes, "other") < 0)
		perror("rename");
	OK(audit_verify(&st, "other", NULL, &err) == COVE_EDAMAGED &&
		   strstr(err.msg, "another sandbox"),
	   "one sandbox's log for another's: %s", err.msg);
	remove_tree_at(st.boxes, "other");

	fill(2);
	snprintf(path, sizeof(path), "%s/%s", home, AUDIT_KEY);
	struct stat sb;
	OK(stat(path, &sb) == 0 && sb.st_size == 32 && (sb.st_mode & 0777) == 0600,
	   "the key is ours alone");
	unlink(path);
	OK(audit_verify(&st, "box", NULL, &err) == COVE_EDAMAGED &&
		   strstr(err.msg, "is missing"),
	   "no key: %s", err.msg);
	OK(access(path, F_OK) < 0, "and none is made by looking");
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	write_all(fd, "0123456789abcdef0123456789abcdef", 32);
	finds("a foreign key", "another key");
	fchmod(fd, 0644);
	OK(audit_verify(&st, "box", NULL, &err) == COVE_EDAMAGED && put("exec") < 0,
	   "a key that others can read is refused");
	fchmod(fd, 0600);
	put("exec");
	finds("a log of two keys", "line 1");
	fill(1);
	OK(whole(1), "a new log with the new key");
}

static void append_many(const char *who, int n)
{
	struct cove_error err = {0};
	struct audit *a = NULL;
	int r = audit_open(&a, &st, "box", &err);

	for (int i = 0; r == 0 && i < n; i++) {
		if (i % 16 == 0) /* both ways of writing, mixed */
			r = audit_log(&st, "box", "exec", json_pack("{s:s}", "who", who),
				      &err);
		else
			r = audit_append(a, "exec", json_pack("{s:s}", "who", who), 0, 0,
					 NULL, &err);
	}
	audit_close(a);
	_exit(r < 0);
}

static void writers_at_once_keep_one_chain(void)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	int bad = 0, status;

	fresh();
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (fork() == 0)
			append_many(names[i], 300);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		bad += wait(&status) < 0 || status != 0;
	OK(bad == 0 && whole(1200), "four writers, one chain");
}

static void killed_writers_leave_it_whole(void)
{
	struct cove_error err;
	uint64_t n, before = 0;
	int bad = 0;

	fresh();
	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();

		if (pid == 0)
			append_many("k", 100000);
		nanosleep(&(struct timespec){.tv_nsec = 1000000 + i * 137000L}, NULL);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		bad += verify(&n, &err) < 0 || n < before;
		before = n;
	}
	OK(bad == 0, "killed at any moment: whole (%llu records)",
	   (unsigned long long)before);
}

/* ---- rotation -------------------------------------------------------------------- */

static void append_large(struct audit *a, uint64_t bytes)
{
	cleanup_free char *text = malloc(100001);
	struct cove_error err = {0};

	memset(text, 'x', 100000);
	text[100000] = '\0';
	for (uint64_t done = 0; done < bytes; done += 100000)
		if (audit_append(a, "gate", json_pack("{s:s}", "text", text), 0, 0, NULL,
				 &err) < 0) {
			printf("# %s\n", err.msg);
			return;
		}
}

static void rotation_keeps_the_chain(void)
{
	cleanup_fd int d = -1;
	struct cove_error err = {0};
	struct audit *a = NULL;
	struct stat sb;
	uint64_t total = 0, n = 0;
	int64_t next;
	int seen = 0, kept = 0;

	fresh();
	d = record_fd();
	audit_open(&a, &st, "box", &err);
	append_large(a, 9u << 20);
	OK(fstatat(d, "audit.1.jsonl", &sb, 0) == 0, "a full file is put away");
	next = audit_read(&st, "box", 0, NULL, NULL, &err);
	OK(next > 0 && whole((uint64_t)next - 1), "and the chain goes on");
	append_large(a, 90u << 20);
	for (int i = 0; i < 12; i++) {
		char name[32];

		audit_file_name(i, name, sizeof(name));
		if (fstatat(d, name, &sb, 0) == 0) {
			kept++;
			total += (uint64_t)sb.st_size;
		}
	}
	OK(kept == AUDIT_FILES && total < AUDIT_FILES * (AUDIT_FILE_MAX + 200000ul),
	   "%d files, %llu MiB", kept, (unsigned long long)total >> 20);
	OK(verify(&n, &err) == 0 && n > 0, "whole after the oldest were dropped: %s",
	   err.msg);
	next = audit_read(&st, "box", 0, count_lines, &seen, &err);
	OK((uint64_t)seen == n && next > (int64_t)n + 1, "what is kept is read");
	seen = 0;
	audit_read(&st, "box", (uint64_t)next - 10, count_lines, &seen, &err);
	OK(seen == 10, "the last ten");
	seen = 0;
	audit_read(&st, "box", (uint64_t)next - 200, count_lines, &seen, &err);
	OK(seen == 200, "the last two hundred, over two files");

	/* a rotation that was cut off in the middle leaves a gap in the names */
	if (renameat(d, "audit.3.jsonl", d, "hole") < 0 ||
	    renameat(d, "hole", d, "audit.3.jsonl") < 0)
		perror("rename");
	unlinkat(d, "audit.7.jsonl", 0);
	finds("the oldest file removed", "the beginning is missing");
	audit_close(a);
}

static void a_cut_off_rotation_goes_on(void)
{
	cleanup_fd int d = -1;
	struct cove_error err = {0};
	struct audit *a = NULL;
	int64_t next;

	fresh();
	d = record_fd();
	audit_open(&a, &st, "box", &err);
	append_large(a, 20u << 20);
	/* the renames were done, the new file was not made yet */
	if (renameat(d, "audit.2.jsonl", d, "audit.3.jsonl") < 0 ||
	    renameat(d, "audit.1.jsonl", d, "audit.2.jsonl") < 0 ||
	    renameat(d, AUDIT_LOG, d, "audit.1.jsonl") < 0)
		perror("rename");
	next = audit_read(&st, "box", 0, NULL, NULL, &err);
	OK(next > 0 && whole((uint64_t)next - 1), "without a current file: whole");
	append_large(a, 1);
	OK(whole((uint64_t)next), "and goes on");
	/* only some of the renames were done */
	if (renameat(d, "audit.3.jsonl", d, "audit.4.jsonl") < 0)
		perror("rename");
	append_large(a, 18u << 20);
	next = audit_read(&st, "box", 0, NULL, NULL, &err);
	OK(next > 0 && whole((uint64_t)next - 1), "a gap in the names is no harm");
	cleanup_fd int gone = openat(d, "audit.2.jsonl", O_RDONLY | O_CLOEXEC);
	unlinkat(d, "audit.2.jsonl", 0);
	finds("a file in the middle removed", "were removed");
	audit_close(a);
}

/* ---- limits and failures --------------------------------------------------------- */

static void an_append_that_fails_changes_nothing(void)
{
	struct rlimit old, tiny;
	struct cove_error err = {0};
	struct stat sb;
	char path[400];

	fill(3);
	snprintf(path, sizeof(path), "%s/%s", dir, AUDIT_LOG);
	stat(path, &sb);
	getrlimit(RLIMIT_FSIZE, &old);
	tiny = old;
	tiny.rlim_cur = (rlim_t)sb.st_size + 50;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &tiny);
	OK(audit_log(&st, "box", "exec", json_pack("{s:s}", "k", "v"), &err) == COVE_EIO,
	   "no room: %s", err.msg);
	setrlimit(RLIMIT_FSIZE, &old);
	OK(whole(3), "nothing was changed");
	put("exec");
	OK(whole(4), "and with room it goes on");
}

static void large_and_strange_fields(void)
{
	cleanup_buf struct buf b = BUF_INIT(4 << 20);
	struct cove_error err = {0};
	json_t *list = json_array(), *j;
	char bytes[256];

	fresh();
	for (int i = 0; i < 60000; i++)
		json_array_append_new(list, json_string("0123456789"));
	j = json_pack("{s:o, s:i, s:s}", "list", list, "n", 7, "seq", "mine");
	OK(audit_log(&st, "box", "gate", j, &err) == 0 && whole(1), "too large a record");
	load(AUDIT_LOG, &b);
	OK(b.len < 2000 && strstr(b.data, "\"n\":7") &&
		   strstr(b.data, "\"truncated\":true"),
	   "is cut down to its plain values");
	OK(!strstr(b.data, "mine"), "a field cannot pose as the frame");
	for (int i = 0; i < 256; i++)
		bytes[i] = (char)i;
	j = json_pack("{s:o, s:s}", "all", audit_text(bytes, sizeof(bytes), 4096), "fake",
		      "\",\"prev\":\"\",\"hash\":\"0\"}\n");
	OK(audit_log(&st, "box", "exec", j, &err) == 0 && whole(2),
	   "all bytes there are");
	load(AUDIT_LOG, &b);
	int odd = 0;
	for (size_t i = 0; i < b.len; i++)
		odd += b.data[i] != '\n' && (b.data[i] < 32 || b.data[i] > 126);
	OK(odd == 0, "the log is printable ASCII");
	j = audit_text("abcdef", 6, 3);
	OK(strcmp(json_string_value(j), "abc...") == 0, "a text is cut");
	json_decref(j);
}

static void specs_without_secrets(void)
{
	struct cove_error err = {0};
	struct spec a, b;
	char *text;
	json_t *j;

	spec_init(&a);
	spec_set(&a, "exec.env", "TOKEN=hunter2", &err);
	spec_copy(&b, &a, &err);
	OK(audit_spec_change(&a, &b) == NULL, "no change");
	spec_set(&b, "exec.env", "TOKEN=hunter3", &err);
	spec_set(&b, "resources.memoryMiB", "512", &err);
	j = audit_spec_change(&a, &b);
	text = json_dumps(j, JSON_COMPACT);
	OK(text && !strstr(text, "hunter"), "no value of the environment: %s", text);
	OK(text && strstr(text, "exec.env") && strstr(text, "resources.memoryMiB"),
	   "but that it changed");
	free(text);
	json_decref(j);
	j = audit_spec(&a);
	text = json_dumps(j, JSON_COMPACT);
	OK(text && strstr(text, "TOKEN") && !strstr(text, "hunter"), "names only");
	free(text);
	json_decref(j);
	spec_clear(&a);
	spec_clear(&b);
}

static void removed_logs_are_kept(void)
{
	struct cove_error err = {0};
	uint64_t n = 0;
	int64_t next;

	fill(3);
	OK(audit_keep(&st, "box", &err) == 0, "kept %s", err.msg);
	remove_tree_at(st.boxes, "box");
	OK(audit_verify(&st, "box", &n, &err) == 0 && n == 4, "whole, with a last word");
	next = audit_read(&st, "box", 0, NULL, NULL, &err);
	OK(next == 5, "and can be read");
	fill(1);
	OK(whole(1), "a new sandbox of the name has a log of its own");
	audit_keep(&st, "box", &err);
	remove_tree_at(st.boxes, "box");
	OK(audit_verify(&st, "box", &n, &err) == 0 && n == 2, "the newest counts");
	for (int i = 0; i < AUDIT_REMOVED_MAX + 5; i++) {
		char path[400];

		snprintf(path, sizeof(path), "%s/audit/x-2000010%dT000000.%03dZ", home,
			 1 + i % 2, i);
		mkdir(path, 0700);
	}
	fill(1);
	audit_keep(&st, "box", &err);
	char cmd[400];
	snprintf(cmd, sizeof(cmd), "%s/audit", home);
	struct stat sb;
	OK(stat(cmd, &sb) == 0 && sb.st_nlink == 2 + AUDIT_REMOVED_MAX,
	   "the newest %d are kept (%d)", AUDIT_REMOVED_MAX, (int)sb.st_nlink - 2);
	OK(audit_verify(&st, "box", &n, &err) == 0, "and that is among them");
}

static void an_append_is_fast(void)
{
	enum { N = 2000 };
	struct cove_error err = {0};
	struct timespec t0, t1;
	struct audit *a = NULL;
	double us;

	fresh();
	audit_open(&a, &st, "box", &err);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	for (int i = 0; i < N; i++)
		audit_append(a, "exec",
			     json_pack("{s:[s,s], s:s, s:s, s:b, s:i}", "argv", "npm",
				       "test", "cwd", "/home/me/project", "user", "agent",
				       "tty", 0, "uid", 1000),
			     AUDIT_RESERVE, 0, NULL, &err);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	us = ((double)(t1.tv_sec - t0.tv_sec) * 1e9 + (double)(t1.tv_nsec - t0.tv_nsec)) /
	     1e3 / N;
	OK(whole(N), "%.1f us an append", us);
	audit_close(a);
}

int main(void)
{
	struct cove_error err = {0};

	if (!mkdtemp(home) || setenv("COVE_HOME", home, 1) < 0 ||
	    store_open(&st, &err) < 0) {
		printf("Bail out! %s\n", err.msg);
		return 1;
	}
	what_is_written_is_whole();
	every_flipped_byte_is_found();
	lines_removed_moved_copied();
	a_cut_tail_is_found();
	the_head_is_guarded();
	a_torn_record_is_mended();
	another_key_and_another_name();
	writers_at_once_keep_one_chain();
	killed_writers_leave_it_whole();
	rotation_keeps_the_chain();
	a_cut_off_rotation_goes_on();
	an_append_that_fails_changes_nothing();
	large_and_strange_fields();
	specs_without_secrets();
	removed_logs_are_kept();
	an_append_is_fast();
	store_close(&st);
	remove_tree_at(AT_FDCWD, home);
	return tap_done();
}
