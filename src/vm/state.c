/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/state.h"

#include "base/io.h"
#include "base/util.h"

#include <stdio.h>
#include <sys/stat.h>

#define TABLES_MAX (256u << 20)
#define COPY_SIZE (64u * 1024)

/* ---- the machine ---------------------------------------------------------------- */

json_t *state_machine_json(const struct state_machine *m)
{
	return json_pack("{s:s, s:b, s:b, s:I, s:i, s:I, s:s, s:s}", "qemu", m->qemu,
			 "kvm", m->kvm, "tuned", m->tuned, "tscKhz",
			 (json_int_t)m->tsc_khz, "cpus", (int)m->cpus, "memory",
			 (json_int_t)m->memory, "kernel", m->kernel, "digest", m->digest);
}

static bool take_text(char *out, size_t size, const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	if (!text || strlen(text) >= size)
		return false;
	snprintf(out, size, "%s", text);
	return true;
}

int state_machine_parse(struct state_machine *m, const json_t *o)
{
	json_int_t cpus = json_integer_value(json_object_get(o, "cpus"));
	json_int_t memory = json_integer_value(json_object_get(o, "memory"));
	json_int_t khz = json_integer_value(json_object_get(o, "tscKhz"));

	if (cpus < 1 || cpus > 1024 || memory < 1 << 20 || khz < 0)
		return -EBADMSG;
	*m = (struct state_machine){
		.kvm = json_is_true(json_object_get(o, "kvm")),
		.tuned = json_is_true(json_object_get(o, "tuned")),
		.tsc_khz = (uint64_t)khz,
		.cpus = (unsigned)cpus,
		.memory = (uint64_t)memory,
	};
	return take_text(m->qemu, sizeof(m->qemu), o, "qemu") &&
			       take_text(m->kernel, sizeof(m->kernel), o, "kernel") &&
			       take_text(m->digest, sizeof(m->digest), o, "digest")
		       ? 0
		       : -EBADMSG;
}

/* ---- writing -------------------------------------------------------------------- */

static int put_number(struct seal *s, uint64_t v, size_t n)
{
	uint8_t le[8];

	for (size_t i = 0; i < sizeof(le); i++)
		le[i] = (uint8_t)(v >> 8 * i);
	return seal_write(s, le, n);
}

static int put_head(struct seal *s, const json_t *head)
{
	char *text = json_dumps(head, JSON_COMPACT);
	size_t n = text ? strlen(text) : 0;
	int r = !text ? -ENOMEM : n > STATE_HEAD_MAX ? -E2BIG : put_number(s, n, 4);

	if (r == 0)
		r = seal_write(s, text, n);
	free(text);
	return r;
}

static int put_tables(struct seal *s, int fd)
{
	uint8_t *buf = malloc(COPY_SIZE);
	uint64_t at = 0;
	struct stat st;
	int r = !buf ? -ENOMEM : fstat(fd, &st) < 0 ? -errno : 0;

	if (r == 0 && (uint64_t)st.st_size > TABLES_MAX)
		r = -EFBIG;
	if (r == 0)
		r = put_number(s, (uint64_t)st.st_size, 8);
	while (r == 0 && at < (uint64_t)st.st_size) {
		size_t want = min_size(COPY_SIZE, (size_t)((uint64_t)st.st_size - at));
		ssize_t n = pread(fd, buf, want, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		r = n < 0 ? -errno : n == 0 ? -EIO : seal_write(s, buf, (size_t)n);
		at += n > 0 ? (uint64_t)n : 0;
	}
	free(buf);
	return r;
}

int state_begin(struct seal *s, int fd, const uint8_t key[SEAL_KEY], const json_t *head,
		int tables, struct cove_error *err)
{
	int r = seal_begin(s, fd, key);

	if (r == 0)
		r = put_head(s, head);
	if (r == 0)
		r = put_tables(s, tables);
	return r < 0 ? fail(err, COVE_EIO, -r, "save the machine") : 0;
}

/* ---- reading -------------------------------------------------------------------- */

static int damaged(int r, struct cove_error *err)
{
	if (r != -EBADMSG)
		return fail(err, r == -ENOMEM ? COVE_ENOMEM : COVE_EIO, -r,
			    "the saved memory");
	fail(err, COVE_EDAMAGED, 0,
	     "the saved memory is damaged, or is not what was saved");
	return hint(err, "nothing was changed");
}

static int take_number(struct seal *s, uint64_t *ret, size_t n)
{
	uint8_t le[8] = {0};
	int r = seal_read_all(s, le, n);

	*ret = 0;
	for (size_t i = 0; i < n; i++)
		*ret |= (uint64_t)le[i] << 8 * i;
	return r;
}

static int take_head(struct seal *s, json_t **ret)
{
	uint64_t n = 0;
	int r = take_number(s, &n, 4);
	char *text;

	if (r < 0 || n > STATE_HEAD_MAX)
		return r < 0 ? r : -EBADMSG;
	text = malloc((size_t)n + 1);
	if (!text)
		return -ENOMEM;
	r = seal_read_all(s, text, (size_t)n);
	*ret = r < 0 ? NULL : json_loadb(text, (size_t)n, 0, NULL);
	free(text);
	if (r == 0 && !json_is_object(*ret)) {
		json_decref(*ret);
		*ret = NULL;
		r = -EBADMSG;
	}
	return r;
}

static int take_tables(struct seal *s, int fd)
{
	uint8_t *buf = malloc(COPY_SIZE);
	uint64_t left = 0;
	int r = buf ? take_number(s, &left, 8) : -ENOMEM;

	if (r == 0 && left > TABLES_MAX)
		r = -EBADMSG;
	while (r == 0 && left) {
		size_t n = min_size(COPY_SIZE, (size_t)left);

		r = seal_read_all(s, buf, n);
		if (r == 0 && fd >= 0)
			r = write_all(fd, buf, n);
		left -= n;
	}
	free(buf);
	return r;
}

int state_open(struct seal *s, int fd, const uint8_t key[SEAL_KEY], json_t **ret_head,
	       int tables, struct cove_error *err)
{
	json_t *head = NULL;
	int r = seal_open(s, fd, key);

	if (r == 0)
		r = take_head(s, &head);
	if (r == 0)
		r = take_tables(s, tables);
	if (r == 0) {
		*ret_head = head;
		return 0;
	}
	json_decref(head);
	return damaged(r, err);
}

static int read_rest(struct seal *s)
{
	uint8_t *buf = malloc(COPY_SIZE);
	ssize_t n = buf ? 1 : -ENOMEM;

	while (n > 0)
		n = seal_read(s, buf, COPY_SIZE);
	free(buf);
	return (int)n;
}

int state_verify(int fd, const uint8_t key[SEAL_KEY], json_t **ret_head,
		 struct cove_error *err)
{
	struct seal s = {.fd = -1};
	json_t *head = NULL;
	int r = state_open(&s, fd, key, &head, -1, err);

	if (r == 0) {
		r = read_rest(&s);
		r = r < 0 ? damaged(r, err) : 0;
	}
	seal_clear(&s);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = fail(err, COVE_EIO, errno, "the saved memory");
	if (r < 0) {
		json_decref(head);
		return r;
	}
	*ret_head = head;
	return 0;
}
