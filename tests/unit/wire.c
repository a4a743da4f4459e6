/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and attributes: what is accepted, what is refused, and that nothing is overrun.
 */
#include "ipc/wire.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int parse(uint8_t type, uint8_t sub, uint32_t stream, uint32_t len, size_t have)
{
	uint8_t *b = calloc(1, WIRE_HEADER + WIRE_PAYLOAD_MAX + 1);
	struct wire_frame f;
	size_t used = 0;
	int r;

	wire_put_header(b, type, sub, stream, len);
	r = wire_parse(b, have, &f, &used);
	if (r == 1 &&
	    (f.type != type || f.sub != sub || f.stream != stream || f.len != len ||
	     used != WIRE_HEADER + len || f.payload != b + WIRE_HEADER))
		r = -1;
	free(b);
	return r;
}

static void header_bytes(void)
{
	static const uint8_t want[WIRE_HEADER] = {5, 0, 0, 0, 24, 1, 0, 0, 4, 3, 2, 1};
	uint8_t b[WIRE_HEADER];

	wire_put_header(b, WIRE_DATA, 1, 0x01020304, 5);
	OK(memcmp(b, want, sizeof(b)) == 0,
	   "header is little-endian, in the stated order");
}

static void whole_frames(void)
{
	const size_t max = WIRE_HEADER + WIRE_PAYLOAD_MAX;

	OK(parse(WIRE_DATA, 2, 7, WIRE_PAYLOAD_MAX, max) == 1, "largest frame");
	OK(parse(WIRE_DATA, 2, 7, WIRE_PAYLOAD_MAX, max - 1) == 0, "one byte short");
	OK(parse(WIRE_DATA, 0, 7, 1, WIRE_HEADER - 1) == 0, "header not whole");
	OK(parse(WIRE_EOF, 1, 1, 0, WIRE_HEADER) == 1, "empty frame");
	OK(parse(WIRE_FILE, WIRE_FILE_REMOVE, 1, 0, WIRE_HEADER) == 1, "last file op");
}

static void bad_frames(void)
{
	static const struct {
		const char *what;
		uint8_t type, sub;
		uint32_t stream, len;
	} bad[] = {
		{"type 0",               0,               0, 1, 0                   },
		{"type between",         7,               0, 1, 0                   },
		{"type too large",       255,             0, 1, 0                   },
		{"payload too large",    WIRE_DATA,       0, 1, WIRE_PAYLOAD_MAX + 1},
		{"payload 4 GiB",        WIRE_DATA,       0, 1, 0xffffffff          },
		{"empty data",           WIRE_DATA,       0, 1, 0                   },
		{"descriptor 3",         WIRE_DATA,       3, 1, 1                   },
		{"data on stream 0",     WIRE_DATA,       0, 0, 1                   },
		{"hello on a stream",    WIRE_HELLO,      0, 1, 16                  },
		{"short hello",          WIRE_HELLO,      0, 0, 15                  },
		{"long ping",            WIRE_PING,       0, 0, 65                  },
		{"exec with a sub",      WIRE_EXEC,       1, 1, 0                   },
		{"file op 0",            WIRE_FILE,       0, 1, 0                   },
		{"file op too large",    WIRE_FILE,       8, 1, 0                   },
		{"eof with payload",     WIRE_EOF,        0, 1, 1                   },
		{"window of five bytes", WIRE_WINDOW_ADD, 0, 1, 5                   },
		{"signal of no bytes",   WIRE_SIGNAL,     0, 1, 0                   },
	};
	uint8_t b[WIRE_HEADER];
	struct wire_frame f = {.type = 99};
	size_t used = 99;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		OK(parse(bad[i].type, bad[i].sub, bad[i].stream, bad[i].len,
			 WIRE_HEADER) == -EPROTO,
		   "refused at the header: %s", bad[i].what);
	wire_put_header(b, WIRE_EOF, 0, 1, 0);
	b[6] = 1;
	OK(wire_parse(b, sizeof(b), &f, &used) == -EPROTO, "the zero field is checked");
	OK(f.type == 99 && used == 99, "outputs untouched on failure");
}

static void attributes(void)
{
	uint8_t b[64];
	struct wire_out o;
	struct wire_attr a;
	uint32_t v32;
	uint64_t v64;
	char s[8];
	size_t pos = 0;

	wire_out_init(&o, b, sizeof(b));
	wire_put_str(&o, WIRE_A_ARG, "abc");
	wire_put_u32(&o, WIRE_A_PID, 0xdeadbeef);
	wire_put_u64(&o, WIRE_A_SIZE, 0x0123456789abcdef);
	wire_put_attr(&o, WIRE_A_SEED, NULL, 0);
	OK(!o.overflow && o.len == 11 + 12 + 16 + 8, "four attributes");
	OK(wire_next_attr(b, o.len, &pos, &a) == 1 && a.tag == WIRE_A_ARG && a.len == 3,
	   "first");
	OK(wire_attr_str(&a, s, sizeof(s)) == 0 && strcmp(s, "abc") == 0, "string");
	OK(wire_attr_str(&a, s, 3) == -ENAMETOOLONG, "string that does not fit");
	OK(wire_attr_u32(&a, &v32) == -EPROTO, "a string is no number");
	OK(wire_next_attr(b, o.len, &pos, &a) == 1 && wire_attr_u32(&a, &v32) == 0 &&
		   v32 == 0xdeadbeef,
	   "u32");
	OK(wire_attr_u64(&a, &v64) == -EPROTO, "u32 is no u64");
	OK(wire_next_attr(b, o.len, &pos, &a) == 1 && wire_attr_u64(&a, &v64) == 0 &&
		   v64 == 0x0123456789abcdef,
	   "u64");
	OK(wire_next_attr(b, o.len, &pos, &a) == 1 && a.len == 0, "empty attribute");
	OK(wire_next_attr(b, o.len, &pos, &a) == 0, "the end");
}

static void bad_attributes(void)
{
	uint8_t b[32] = {0};
	struct wire_out o;
	struct wire_attr a;
	size_t pos = 0;
	char s[8];

	wire_out_init(&o, b, sizeof(b));
	wire_put_attr(&o, WIRE_A_ARG, "a\0b", 3);
	OK(wire_next_attr(b, o.len, &pos, &a) == 1, "attribute with a NUL inside");
	OK(wire_attr_str(&a, s, sizeof(s)) == -EPROTO, "is no string");
	for (size_t n = 1; n < o.len; n++) {
		pos = 0;
		OK(wire_next_attr(b, n, &pos, &a) == -EPROTO && pos == 0, "cut at %zu",
		   n);
	}
	pos = 0;
	b[2] = 1;
	OK(wire_next_attr(b, o.len, &pos, &a) == -EPROTO, "zero field");
	b[2] = 0;
	b[0] = 0;
	OK(wire_next_attr(b, o.len, &pos, &a) == -EPROTO, "tag 0");
	b[0] = 1;
	memset(b + 4, 0xff, 4);
	OK(wire_next_attr(b, o.len, &pos, &a) == -EPROTO, "length beyond the payload");
}

static void overflow_is_remembered(void)
{
	uint8_t b[20];
	struct wire_out o;

	memset(b, 0xaa, sizeof(b));
	wire_out_init(&o, b, 16);
	wire_put_u32(&o, WIRE_A_PID, 1);
	wire_put_u32(&o, WIRE_A_PID, 2);
	OK(o.overflow && o.len == 12, "the second does not fit");
	wire_put_attr(&o, WIRE_A_ARG, "", 0);
	OK(o.overflow && o.len == 12, "and nothing is added after it");
	OK(b[12] == 0xaa && b[16] == 0xaa, "nor written");
}

/* The bytes of section 8 of docs/PROTOCOL.md. */
static void worked_example(void)
{
	static const uint8_t exec[] =
		"\x37\0\0\0\x10\0\0\0\1\0\0\0\1\0\0\0\x09\0\0\0/bin/"
		"true\2\0\0\0\x12\0\0\0"
		"PATH=/usr/bin:/bin\4\0\0\0\4\0\0\0\x0a\0\0"; /* and the NUL behind */
	uint8_t b[WIRE_HEADER + 256];
	struct wire_out o;

	wire_out_init(&o, b + WIRE_HEADER, 256);
	wire_put_str(&o, WIRE_A_ARG, "/bin/true");
	wire_put_str(&o, WIRE_A_ENV, "PATH=/usr/bin:/bin");
	wire_put_u32(&o, WIRE_A_FLAGS, WIRE_EXEC_NO_STDIN | WIRE_EXEC_LAST);
	wire_put_header(b, WIRE_EXEC, 0, 1, (uint32_t)o.len);
	OK(WIRE_HEADER + o.len == sizeof(exec) && memcmp(b, exec, sizeof(exec)) == 0,
	   "EXEC of /bin/true, as documented");
}

int main(void)
{
	worked_example();
	header_bytes();
	whole_frames();
	bad_frames();
	attributes();
	bad_attributes();
	overflow_is_remembered();
	return tap_done();
}
