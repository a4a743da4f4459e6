/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets across the start of a keeper, in a memfd that nobody can change any more.
 *
 *	"COVESECP", u32 count, then for each: u32 inject, u32 source, and name, value,
 *	placeholder, hosts, each with a u32 length before it
 */
#include "core/secret.h"

#include "base/io.h"
#include "base/redact.h"
#include "base/util.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MAGIC "COVESECP"
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define TEXT_MAX 65536
#define PASS_MAX (SECRETS_MAX * (4u * TEXT_MAX))

static const char *const labels[] = {"standard input", "environment", "store", "file",
				     "command"};

static uint32_t label_index(const char *source)
{
	for (uint32_t i = 0; source && i < ARRAY_LEN(labels); i++)
		if (strcmp(labels[i], source) == 0)
			return i;
	return 0;
}

static int put_u32(int fd, uint32_t v)
{
	return write_all(fd, &v, sizeof(v));
}

static int put_text(int fd, const char *p, size_t n)
{
	int r = put_u32(fd, (uint32_t)n);

	return r < 0 ? r : write_all(fd, p, n);
}

static int put_secret(int fd, const struct secret *s)
{
	const char *placeholder = s->placeholder ? s->placeholder : "";
	int r = put_u32(fd, (uint32_t)s->inject);

	if (r == 0)
		r = put_u32(fd, label_index(s->source));
	if (r == 0)
		r = put_text(fd, s->name, strlen(s->name));
	if (r == 0)
		r = put_text(fd, s->value, s->n);
	if (r == 0)
		r = put_text(fd, placeholder, strlen(placeholder));
	return r < 0 ? r : put_text(fd, s->hosts, strlen(s->hosts));
}

int secrets_send(const struct secrets *s, int *ret_fd, struct cove_error *err)
{
	cleanup_fd int fd = memfd_create("cove-secrets", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : write_all(fd, MAGIC, 8);

	if (r == 0)
		r = put_u32(fd, (uint32_t)s->n);
	for (size_t i = 0; r == 0 && i < s->n; i++)
		r = put_secret(fd, &s->v[i]);
	if (r == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		r = -errno;
	if (r < 0)
		return fail(err, COVE_EIO, -r, "secrets for the keeper");
	*ret_fd = take_fd(&fd);
	return 0;
}

/* ---- the other side ------------------------------------------------------------------
 */

struct reader {
	const unsigned char *p;
	size_t left;
};

static int get_u32(struct reader *r, uint32_t *ret)
{
	if (r->left < sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, r->p, sizeof(*ret));
	r->p += sizeof(*ret);
	r->left -= sizeof(*ret);
	return 0;
}

static int get_text(struct reader *r, char *(*alloc)(size_t n), char **ret, size_t *ret_n)
{
	uint32_t n;
	char *text;

	if (get_u32(r, &n) < 0 || n > TEXT_MAX || n > r->left)
		return -EBADMSG;
	text = alloc(n);
	if (!text)
		return -ENOMEM;
	memcpy(text, r->p, n);
	text[n] = '\0';
	r->p += n;
	r->left -= n;
	*ret = text;
	if (ret_n)
		*ret_n = n;
	return 0;
}

static char *plain_alloc(size_t n)
{
	return malloc(n + 1);
}

static int get_secret(struct reader *r, struct secret *s)
{
	uint32_t inject, source;
	int e;

	if (get_u32(r, &inject) < 0 || get_u32(r, &source) < 0 || inject > INJECT_FILE ||
	    source >= ARRAY_LEN(labels))
		return -EBADMSG;
	s->inject = (enum secret_inject)inject;
	s->source = labels[source];
	e = get_text(r, plain_alloc, &s->name, NULL);
	if (e == 0)
		e = get_text(r, secret_alloc, &s->value, &s->n);
	if (e == 0)
		e = get_text(r, plain_alloc, &s->placeholder, NULL);
	if (e == 0)
		e = get_text(r, plain_alloc, &s->hosts, NULL);
	if (e < 0)
		return e;
	if (!s->placeholder[0])
		free(take_ptr(s->placeholder));
	redact_add(s->name, s->value, s->n);
	return 0;
}

static int get_all(struct reader *r, struct secrets *all)
{
	uint32_t n;
	int e = 0;

	if (r->left < 8 || memcmp(r->p, MAGIC, 8) != 0)
		return -EBADMSG;
	r->p += 8;
	r->left -= 8;
	if (get_u32(r, &n) < 0 || n == 0 || n > SECRETS_MAX)
		return -EBADMSG;
	all->v = calloc(n, sizeof(*all->v));
	if (!all->v)
		return -ENOMEM;
	for (uint32_t i = 0; i < n && e == 0; i++)
		e = get_secret(r, &all->v[all->n++]);
	return e == 0 && r->left ? -EBADMSG : e;
}

int secrets_receive(struct secrets **ret, int fd, struct cove_error *err)
{
	struct secrets *all = calloc(1, sizeof(*all));
	struct reader rd;
	struct stat st;
	void *map;
	int r;

	if (!all)
		return fail_nomem(err);
	if (fcntl(fd, F_GET_SEALS) != SEALS || fstat(fd, &st) < 0 || st.st_size < 12 ||
	    st.st_size > (off_t)PASS_MAX) {
		secrets_free(all);
		return fail(err, COVE_EPROTO, 0, "secrets: not what a starter sends");
	}
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		secrets_free(all);
		return fail(err, COVE_EIO, errno, "secrets");
	}
	rd = (struct reader){map, (size_t)st.st_size};
	r = get_all(&rd, all);
	munmap(map, (size_t)st.st_size);
	if (r < 0) {
		secrets_free(all);
		return fail(err, r == -ENOMEM ? COVE_ENOMEM : COVE_EPROTO, -r, "secrets");
	}
	*ret = all;
	return 0;
}
