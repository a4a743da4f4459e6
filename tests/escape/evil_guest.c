/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evil_guest - takes cove-guest's place and attacks the host over the link.
 *
 * Nothing reaches it but the link: descriptor 3, or a port of the machine. So what to do
 * is written into the program itself: a test copies the file and replaces the padded word
 * in `mode`.
 */
#include "evil_guest.h"
#include "ipc/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINK_FD 3

static const char *volatile mode = "EVIL-MODE=garbage.............";

static void put(const void *data, size_t n)
{
	const char *p = data;

	while (n) {
		ssize_t done = write(LINK_FD, p, n);

		if (done < 0 && errno == EAGAIN)
			poll(&(struct pollfd){.fd = LINK_FD, .events = POLLOUT}, 1, -1);
		else if (done < 0)
			_exit(0); /* the host hung up: that is what it should do */
		else {
			p += done;
			n -= (size_t)done;
		}
	}
}

static void get(void *data, size_t n)
{
	char *p = data;

	while (n) {
		ssize_t done = read(LINK_FD, p, n);

		if (done < 0 && errno == EAGAIN)
			poll(&(struct pollfd){.fd = LINK_FD, .events = POLLIN}, 1, -1);
		else if (done <= 0)
			_exit(0);
		else {
			p += done;
			n -= (size_t)done;
		}
	}
}

static void frame(uint8_t type, uint8_t sub, uint32_t stream, const void *payload,
		  uint32_t n)
{
	uint8_t head[WIRE_HEADER];

	wire_put_header(head, type, sub, stream, n);
	put(head, sizeof(head));
	if (n)
		put(payload, n);
}

static void hello(uint32_t magic, uint32_t version)
{
	uint8_t p[16] = {0};

	wire_set32(p, magic);
	wire_set32(p + 4, version);
	frame(WIRE_HELLO, 0, 0, p, sizeof(p));
}

/* The next frame from the host; the payload is kept until the next call. */
static struct wire_frame next(void)
{
	static uint8_t data[WIRE_HEADER + WIRE_PAYLOAD_MAX];
	struct wire_frame f;
	size_t used;

	get(data, WIRE_HEADER);
	get(data + WIRE_HEADER, wire_get32(data));
	if (wire_parse(data, WIRE_HEADER + wire_get32(data), &f, &used) != 1)
		_exit(1);
	return f;
}

/* Plays a good guest until the host asks for `type`; returns the stream. */
static uint32_t until(uint8_t type)
{
	struct wire_frame f;

	hello(WIRE_MAGIC, WIRE_VERSION);
	while ((f = next()).type != type)
		if (f.type == WIRE_PING)
			frame(WIRE_PONG, 0, 0, f.payload, f.len);
	return f.stream;
}

static void number(uint8_t type, uint32_t stream, uint16_t tag, uint32_t value)
{
	uint8_t data[64];
	struct wire_out o;

	wire_out_init(&o, data, sizeof(data));
	wire_put_u32(&o, tag, value);
	frame(type, 0, stream, data, (uint32_t)o.len);
}

static void text(uint8_t type, uint32_t stream, const char *s)
{
	static uint8_t data[WIRE_PAYLOAD_MAX];
	struct wire_out o;

	wire_out_init(&o, data, sizeof(data));
	wire_put_u32(&o, WIRE_A_ERRNO, 1);
	wire_put_str(&o, WIRE_A_TEXT, s);
	frame(type, 0, stream, data, (uint32_t)o.len);
}

static void hang(void)
{
	for (;;)
		pause();
}

/* ---- the attacks ------------------------------------------------------------------- */

static void garbage(void)
{
	uint8_t noise[4096];

	for (unsigned i = 0, x = 1; i < sizeof(noise); i++, x = x * 1103515245 + 12345)
		noise[i] = (uint8_t)(x >> 16);
	for (;;)
		put(noise, sizeof(noise));
}

static void huge_length(void)
{
	uint8_t head[WIRE_HEADER];

	until(WIRE_EXEC);
	wire_put_header(head, WIRE_DATA, 1, 1, 0xffffffffu);
	put(head, sizeof(head));
	garbage();
}

static void bad_magic(void)
{
	hello(0x12345678, WIRE_VERSION);
	hang();
}

static void bad_version(void)
{
	hello(WIRE_MAGIC, 99);
	hang();
}

static void no_hello(void)
{
	frame(WIRE_DATA, 1, 1, "x", 1);
	hang();
}

static void half_hello(void)
{
	put("\20\0\0\0\1\0", 6);
	hang();
}

static void beyond_credit(void)
{
	static uint8_t data[WIRE_PAYLOAD_MAX];
	uint32_t s = until(WIRE_EXEC);

	number(WIRE_STARTED, s, WIRE_A_PID, 2);
	for (;;)
		frame(WIRE_DATA, 1, s, data, sizeof(data));
}

static void stderr_without_end(void)
{
	uint32_t s = until(WIRE_EXEC);

	number(WIRE_STARTED, s, WIRE_A_PID, 2);
	for (;;)
		frame(WIRE_DATA, 7, s, "x", 1); /* there is no descriptor 7 */
}

static void exit_unknown(void)
{
	until(WIRE_EXEC);
	number(WIRE_EXIT, 4242, WIRE_A_CODE, 0);
	hang();
}

static void started_unknown(void)
{
	until(WIRE_EXEC);
	number(WIRE_STARTED, 4242, WIRE_A_PID, 2);
	hang();
}

static void ping_flood(void) /* and never reads an answer */
{
	until(WIRE_EXEC);
	for (;;)
		frame(WIRE_PING, 0, 0, "0123456789abcdef0123456789abcdef", 32);
}

static void window_overflow(void)
{
	uint32_t s = until(WIRE_EXEC);

	number(WIRE_STARTED, s, WIRE_A_PID, 2);
	for (int i = 0; i < 4; i++)
		frame(WIRE_WINDOW_ADD, 0, s, "\xff\xff\xff\xff", 4);
	hang();
}

static void bad_attributes(void)
{
	uint32_t s = until(WIRE_EXEC);

	frame(WIRE_STARTED, 0, s, "\1\0\0\0\xff\xff\xff\x7f", 8);
	hang();
}

static void client_frames(void) /* requests run one way only */
{
	until(WIRE_EXEC);
	frame(WIRE_SHUTDOWN, 0, 0, NULL, 0);
	text(WIRE_EXEC, 7, "x");
	hang();
}

static void second_hello(void)
{
	until(WIRE_EXEC);
	hello(WIRE_MAGIC, WIRE_VERSION);
	hang();
}

static void unknown_type(void)
{
	until(WIRE_EXEC);
	frame(200, 0, 0, "x", 1);
	hang();
}

static void says_escape(void) /* terminal escapes in an error text */
{
	uint32_t s = until(WIRE_EXEC);

	text(WIRE_FAILED, s, "\033]0;owned\007\033[2Jlies\nmore lines");
	frame(WIRE_CLOSE, 0, s, NULL, 0);
	hang();
}

static void bye_escape(void)
{
	until(WIRE_EXEC);
	frame(WIRE_BYE, 0, 0, "\033]0;owned\007\033[2J", 14);
	_exit(0);
}

static void exit_code_large(void)
{
	uint32_t s = until(WIRE_EXEC);

	number(WIRE_STARTED, s, WIRE_A_PID, 2);
	number(WIRE_EXIT, s, WIRE_A_CODE, 0x7fffff00u); /* low byte 0: not a success */
	hang();
}

static void exit_signal_large(void)
{
	uint32_t s = until(WIRE_EXEC);

	number(WIRE_STARTED, s, WIRE_A_PID, 2);
	number(WIRE_EXIT, s, WIRE_A_SIGNAL, 0xffffff80u);
	hang();
}

static void exit_twice(void)
{
	uint32_t s = until(WIRE_EXEC);

	number(WIRE_STARTED, s, WIRE_A_PID, 2);
	number(WIRE_STARTED, s, WIRE_A_PID, 3);
	number(WIRE_EXIT, s, WIRE_A_CODE, 1);
	number(WIRE_EXIT, s, WIRE_A_CODE, 0);
	hang();
}

static void gone(void)
{
	_exit(0);
}

/* Answers a copy out of the sandbox with names that lead elsewhere. */
static void list_entries(uint32_t s)
{
	static const char *const names[] = {"../owned",      "/owned", "..",  ".",
					    "a/../../owned", "",       "link"};
	uint8_t data[512];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i]);

		data[n++] = i == 6 ? 10 : 8; /* DT_LNK, DT_REG */
		wire_set16(data + n, (uint16_t)len);
		memcpy(data + n + 2, names[i], len);
		n += 2 + len;
	}
	frame(WIRE_RESULT, 0, s, NULL, 0);
	frame(WIRE_DATA, 1, s, data, (uint32_t)n);
	frame(WIRE_EOF, 1, s, NULL, 0);
	frame(WIRE_CLOSE, 0, s, NULL, 0);
}

static void file_answer(const struct wire_frame *f, int first)
{
	uint8_t data[256];
	struct wire_out o;

	if (f->sub == WIRE_FILE_LIST) {
		list_entries(f->stream);
		return;
	}
	wire_out_init(&o, data, sizeof(data));
	wire_put_u32(&o, WIRE_A_MODE, first ? 0040755 : 0100644);
	wire_put_u64(&o, WIRE_A_SIZE, 5);
	wire_put_u64(&o, WIRE_A_MTIME_NS, 1);
	wire_put_u32(&o, WIRE_A_UID, 0);
	wire_put_u32(&o, WIRE_A_GID, 0);
	frame(WIRE_RESULT, 0, f->stream, data, (uint32_t)o.len);
	if (f->sub == WIRE_FILE_READ) {
		frame(WIRE_DATA, 1, f->stream, "owned", 5);
		frame(WIRE_EOF, 1, f->stream, NULL, 0);
	}
	frame(WIRE_CLOSE, 0, f->stream, NULL, 0);
}

static void lying_files(void)
{
	int first = 1;

	hello(WIRE_MAGIC, WIRE_VERSION);
	for (;;) {
		struct wire_frame f = next();

		if (f.type == WIRE_PING) {
			frame(WIRE_PONG, 0, 0, f.payload, f.len);
		} else if (f.type == WIRE_FILE) {
			file_answer(&f, first);
			first = 0;
		} else if (f.type == WIRE_SHUTDOWN) {
			_exit(0);
		}
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} attacks[] = {
	{"garbage",     garbage           },
	{"huge-length", huge_length       },
	{"bad-magic",   bad_magic         },
	{"bad-version", bad_version       },
	{"no-hello",    no_hello          },
	{"half-hello",  half_hello        },
	{"silent",      hang              },
	{"credit",      beyond_credit     },
	{"bad-fd",      stderr_without_end},
	{"exit-alien",  exit_unknown      },
	{"start-alien", started_unknown   },
	{"pings",       ping_flood        },
	{"window",      window_overflow   },
	{"attributes",  bad_attributes    },
	{"requests",    client_frames     },
	{"hello-twice", second_hello      },
	{"alien-type",  unknown_type      },
	{"escape-text", says_escape       },
	{"escape-bye",  bye_escape        },
	{"exit-code",   exit_code_large   },
	{"exit-signal", exit_signal_large },
	{"exit-twice",  exit_twice        },
	{"gone",        gone              },
	{"files",       lying_files       },
};

int main(void)
{
	const char *name = mode + strlen("EVIL-MODE=");
	size_t n = strcspn(name, ".");

	signal(SIGPIPE, SIG_IGN);
	if (fcntl(LINK_FD, F_GETFD) < 0 && dup2(evil_machine_link(), LINK_FD) < 0)
		return 98;
	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
		if (strlen(attacks[i].name) == n &&
		    strncmp(attacks[i].name, name, n) == 0)
			attacks[i].run();
	return 99;
}
