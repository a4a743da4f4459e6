/* SPDX-License-Identifier: Apache-2.0 */
/* Templates as files: found by all that they depend on, whole or not there, held, swept.
 */
#include "base/io.h"
#include "base/util.h"
#include "tap.h"
#include "vm/processor.h"
#include "vm/template.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MEMORY 65536

static char cache[] = "/tmp/cove-template.XXXXXX";
static const struct template_id base = {.kernel = "k",
					.digest = "d",
					.qemu = "7.2",
					.append = "",
					.processor = "p",
					.begun = "",
					.cpus = 1,
					.memory = MEMORY};

static void must(bool ok)
{
	if (ok)
		return;
	puts("Bail out! the files of the test");
	exit(1);
}

static void put(const char *dir, const char *name, size_t n)
{
	char path[4400];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	must(fd >= 0 && ftruncate(fd, (off_t)n) == 0);
}

static void make(struct template *t, const struct template_id *id)
{
	struct cove_error err = {0};

	must(template_find(t, cache, id, &err) == 0 && template_lock(t, &err) == 0 &&
	     template_begin(t, &err) == 0);
	put(t->making, "ram", MEMORY);
	put(t->making, "state", 100);
	if (*id->begun)
		put(t->making, "tables", 50);
	must(template_commit(t, id, &err) == 0);
	template_unlock(t);
}

static const struct timespec *an_hour_ago(void)
{
	static struct timespec old[2];

	old[0].tv_sec = old[1].tv_sec = time(NULL) - 7200;
	return old;
}

static void age(const struct template *t)
{
	must(utimensat(AT_FDCWD, t->dir, an_hour_ago(), 0) == 0);
}

static bool is_there(const struct template *t)
{
	return access(t->dir, F_OK) == 0;
}

static void key_has_everything(void)
{
	struct template_id id[12];
	struct template t[ARRAY_LEN(id)];
	struct cove_error err = {0};
	bool all = true;

	for (size_t i = 0; i < ARRAY_LEN(id); i++)
		id[i] = base;
	id[1].digest = "other";
	id[2].qemu = "8.0";
	id[3].append = "nohz=off";
	id[4].processor = "other";
	id[5].cpus = 2;
	id[6].memory = 2 * MEMORY;
	id[7].swap = 1;
	id[8].kvm = true;
	id[9].begun = "1000:1000";
	id[10].tsc_mhz = 2300;
	id[11].kernel = "only a name to show";
	for (size_t i = 0; i < ARRAY_LEN(id); i++)
		must(template_find(&t[i], cache, &id[i], &err) == 0);
	for (size_t i = 0; i < 11; i++)
		for (size_t j = 0; j < i; j++)
			all = all && strcmp(t[i].key, t[j].key) != 0;
	OK(all, "what it depends on is in its key");
	OK(strcmp(t[11].key, t[0].key) == 0, "and what it does not depend on is not");
}

static void whole_or_not(void)
{
	const char *fault = NULL;
	struct template t;
	struct stat st;

	make(&t, &base);
	OK(template_ready(&t, &base, &fault) && !fault, "a whole one is ready");
	OK(stat(t.making, &st) < 0, "and nothing of its making is left");
	put(t.dir, "state", 99);
	OK(!template_ready(&t, &base, &fault) && fault, "one whose state is cut is not");
	make(&t, &base);
	put(t.dir, "ram", MEMORY - 1);
	OK(!template_ready(&t, &base, &fault) && fault, "one whose memory is cut is not");
	make(&t, &base);
	OK(template_ready(&t, &base, &fault) && !fault, "made again, it is");
	template_drop(&t);
	OK(!template_ready(&t, &base, &fault) && !fault, "a dropped one is no fault");
}

static void one_that_has_begun_needs_its_tables(void)
{
	struct template_id begun = base;
	const char *fault = NULL;
	struct template t;

	begun.begun = "1000:1000";
	make(&t, &begun);
	OK(template_ready(&t, &begun, &fault) && !fault, "one that has begun is ready");
	put(t.dir, "tables", 49);
	OK(!template_ready(&t, &begun, &fault) && fault, "with its tables cut it is not");
	template_drop(&t);
}

static void held_ones_stay(void)
{
	struct template_id newer = base;
	struct cove_error err = {0};
	struct template t;

	newer.qemu = "8.0";
	make(&t, &base);
	OK(template_hold(&t) && t.ram.st_size == MEMORY, "it can be held");
	age(&t);
	template_sweep(cache, &newer);
	OK(is_there(&t), "then it is not swept, stale as it is");
	template_let_go(&t);
	template_sweep(cache, &newer);
	OK(!is_there(&t), "let go, it is");
	OK(!template_hold(&t), "what is gone cannot be held");
	make(&t, &base);
	OK(template_remove(cache, NULL, &err) == 1 && !is_there(&t), "it can be removed");
}

static void stale_ones_go(void)
{
	struct template_id other = base;
	struct template t, keep;

	make(&t, &base);
	other.digest = "newer guest";
	template_sweep(cache, &other);
	OK(is_there(&t), "one that was used within the hour is kept, whatever it is of");
	age(&t);
	template_sweep(cache, &base);
	OK(is_there(&t), "and one that a start would look for");
	other.cpus = 2;
	other.digest = base.digest;
	make(&keep, &other);
	age(&keep);
	age(&t);
	template_sweep(cache, &base);
	OK(is_there(&keep), "of any size");
	other.kernel = "another kernel";
	other.digest = "of that";
	template_sweep(cache, &other);
	OK(is_there(&t) && is_there(&keep), "and of any kernel that may be installed");
	other.kernel = base.kernel;
	template_sweep(cache, &other);
	OK(!is_there(&t) && !is_there(&keep), "those of a kernel that changed are not");
}

static void what_cannot_be_made_is_not_tried_for_an_hour(void)
{
	struct template_id bare = base, begun = base;
	struct cove_error err = {0};
	struct template t, other;
	char path[4300];

	begun.begun = "1000:1000";
	must(template_find(&t, cache, &begun, &err) == 0);
	must(template_find(&other, cache, &bare, &err) == 0);
	snprintf(path, sizeof(path), "%s.forgone", t.dir);
	OK(!template_forgone(&t), "nothing is forgone at first");
	template_forgo(&t);
	OK(template_forgone(&t) && !template_forgone(&other),
	   "one that could not be made is, and no other");
	template_sweep(cache, &base);
	OK(template_forgone(&t), "a sweep leaves that");
	must(utimensat(AT_FDCWD, path, an_hour_ago(), AT_SYMLINK_NOFOLLOW) == 0);
	OK(!template_forgone(&t), "an hour later it may be tried again");
	template_sweep(cache, &base);
	OK(access(path, F_OK) < 0, "and the next sweep forgets it");
	template_forgo(&t);
	OK(template_remove(cache, NULL, &err) == 0 && !template_forgone(&t),
	   "and so does who removes templates");
}

static void processors_differ(void)
{
	static const char one[] = "processor\t: 0\nvendor_id\t: X\nmodel\t\t: 1\n"
				  "cpu MHz\t\t: 2300.1\nflags\t\t: fpu sse\n\nrest";
	static const char faster[] = "processor\t: 0\nvendor_id\t: X\nmodel\t\t: 1\n"
				     "cpu MHz\t\t: 3000.7\nflags\t\t: fpu sse\n\nother";
	static const char more[] = "processor\t: 0\nvendor_id\t: X\nmodel\t\t: 1\n"
				   "cpu MHz\t\t: 2300.1\nflags\t\t: fpu sse avx\n\nrest";
	char a[PROCESSOR_HEX], b[PROCESSOR_HEX], c[PROCESSOR_HEX], d[PROCESSOR_HEX];

	processor_digest_text(one, a);
	processor_digest_text(faster, b);
	processor_digest_text(more, c);
	OK(strcmp(a, b) == 0, "a processor is the same at another clock rate");
	OK(strcmp(a, c) != 0, "and another with other features");
	processor_digest(c);
	processor_digest(d);
	processor_digest_text("", a);
	OK(strcmp(c, d) == 0 && strcmp(c, a) != 0, "this host's is known");
}

int main(void)
{
	must(mkdtemp(cache) != NULL);
	key_has_everything();
	whole_or_not();
	one_that_has_begun_needs_its_tables();
	held_ones_stay();
	stale_ones_go();
	what_cannot_be_made_is_not_tried_for_an_hour();
	processors_differ();
	remove_tree_at(AT_FDCWD, cache);
	return tap_done();
}
