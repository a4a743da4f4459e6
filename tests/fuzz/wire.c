/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as frames and attributes. Properties: what wire_parse() accepts, put together
 * again, is the same bytes; and the link, fed in pieces, finds the same frames.
 */
#include "fuzz.h"

#include "base/util.h"
#include "ipc/link.h"

#include <sys/socket.h>

static void check(int good)
{
	if (!good)
		abort();
}

static void walk_attrs(const struct wire_frame *f)
{
	struct wire_attr a;
	size_t pos = 0, total = 0;
	uint32_t v32;
	uint64_t v64;
	char text[64];

	while (wire_next_attr(f->payload, f->len, &pos, &a) == 1) {
		check(a.data >= f->payload && a.data + a.len <= f->payload + f->len);
		total += 8 + (size_t)a.len;
		check(total == pos);
		check((wire_attr_u32(&a, &v32) == 0) == (a.len == 4));
		check((wire_attr_u64(&a, &v64) == 0) == (a.len == 8));
		if (wire_attr_str(&a, text, sizeof(text)) == 0)
			check(strlen(text) == a.len);
	}
}

/* How many whole frames there are; -1 behind the last if what follows is malformed. */
static size_t parse_all(const uint8_t *data, size_t size, int *ret_last)
{
	struct wire_frame f;
	uint8_t head[WIRE_HEADER];
	size_t used, count = 0;
	int r;

	while ((r = wire_parse(data, size, &f, &used)) == 1) {
		check(used <= size && used == WIRE_HEADER + f.len);
		wire_put_header(head, f.type, f.sub, f.stream, f.len);
		check(memcmp(head, data, sizeof(head)) == 0);
		walk_attrs(&f);
		data += used;
		size -= used;
		count += f.type != WIRE_HELLO;
	}
	*ret_last = r;
	return count;
}

static void through_link(const uint8_t *data, size_t size, size_t want)
{
	struct wire_frame f;
	struct link l;
	size_t count = 0, step = size % 61 + 1;
	int sv[2], r = 0;

	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) ==
	      0);
	link_init(&l, sv[0], sv[0]);
	l.hello_seen = true; /* a second HELLO ends it, which parse_all() does not know */
	for (size_t at = 0; at < size && r >= 0; at += step) {
		size_t n = min_size(step, size - at);

		check(write(sv[1], data + at, n) == (ssize_t)n);
		check(link_fill(&l) == 1);
		while ((r = link_next(&l, &f)) == 1)
			count++;
	}
	check(r < 0 ? count <= want : count == want);
	link_clear(&l);
	close(sv[0]);
	close(sv[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int last;
	size_t n = parse_all(data, size, &last);

	if (size && size <= 4096)
		through_link(data, size, n);
	return 0;
}
