/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire - the bytes of the link: frames and attributes. Pure: no I/O, no allocation.
 *
 * One byte stream joins a client (libcove, or the keeper) to a server (cove-guest, or the
 * keeper). Both send frames. All integers are little-endian. docs/PROTOCOL.md is the
 * specification in prose; the summary here must agree with it.
 *
 * Frame = header (12 bytes) + payload
 *	u32 length	of the payload, at most WIRE_PAYLOAD_MAX
 *	u8  type	enum wire_type
 *	u8  sub		DATA, EOF, WINDOW: which descriptor (0 stdin, 1 stdout, 2 stderr);
 *			FILE: enum wire_file_op; otherwise 0
 *	u16 zero	must be 0
 *	u32 stream	0: the connection itself; else a stream the client opened
 *
 * A stream is opened by the client with EXEC, FILE, PORT, INFO or a keeper request, with
 * an id it chooses (not 0, not in use), and ends when BOTH sides have sent CLOSE for it;
 * only then may the id be used again. A server that has sent its last frame of a stream
 * sends CLOSE; a client that gets CLOSE answers with CLOSE. A client may send CLOSE first
 * (it lost interest): the server ends what it was doing (a process gets SIGHUP, then
 * SIGKILL after 2 s), drops later frames of the stream, and answers CLOSE. Frames for a
 * stream id that is unknown are ignored if they are DATA, EOF, WINDOW, SIGNAL, RESIZE or
 * CLOSE (they may cross a CLOSE on the way); any other violation ends the connection.
 *
 * Flow control, per stream and descriptor: a sender of DATA starts with WIRE_WINDOW bytes
 * of credit and may never exceed it; the receiver returns credit with WINDOW as it
 * consumes. A peer that sends beyond its credit broke the protocol.
 * Every other frame is small, and what a peer may have outstanding is bounded
 * (WIRE_STREAMS_MAX streams).
 *
 * Payload of most frames: attributes, each { u16 tag, u16 zero, u32 length, bytes }, in
 * any order, repeated where said. A receiver refuses an attribute it does not know in a
 * request (EXEC, FILE, PORT, INFO, SETUP) and skips it in an answer.
 */
#ifndef COVE_IPC_WIRE_H
#define COVE_IPC_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC 0x45564f43u /* "COVE" */
#define WIRE_VERSION 1
#define WIRE_HEADER 12
#define WIRE_PAYLOAD_MAX 65536u
#define WIRE_WINDOW (512u * 1024) /* initial credit of every descriptor of a stream */
#define WIRE_STREAMS_MAX 1024     /* open at once on one connection */
#define WIRE_ATTRS_MAX 4096       /* attributes in one frame */

enum wire_type {
	/* both, first frame each way: u32 magic, u32 version, u32 features (0), u32 zero
	 */
	WIRE_HELLO = 1,
	WIRE_PING, /* both: up to 64 bytes, answered by PONG with the same bytes */
	WIRE_PONG,
	/* server to client on stream 0: text; the connection ends after it */
	WIRE_BYE,

	/* client to server, stream 0, at most once and before any request: attributes
	 * HOSTNAME, TIME_NS, SEED, FLAGS (WIRE_SETUP_*), PATH (repeated: a directory to
	 * create), ENV (repeated: for every EXEC that has none of that name). To a
	 * machine (WIRE_SETUP_MACHINE) also MOUNT (repeated, in order), PIDS, and UID,
	 * GID: of an EXEC that names none, and of every file operation */
	WIRE_SETUP = 8,
	/* client to server, stream 0: end everything. attribute TIMEOUT_MS: SIGTERM to
	 * all, and SIGKILL after that time. The server then closes the connection. */
	WIRE_SHUTDOWN,
	/* client to a machine, stream 0: be quiet, because you are about to be saved. The
	 * server finishes what it has to say, lets no request for files be under way, and
	 * answers QUIET: ERRNO (0: it is). Then neither side says anything until the
	 * client, which may be another one by then, begins the connection anew: HELLO,
	 * RESUME; the server answers HELLO. FLAGS (WIRE_QUIESCE_*) */
	WIRE_QUIESCE,
	WIRE_QUIET,
	/* client, after QUIET: go on. FLAGS (WIRE_RESUME_*). In another place than
	 * before also TIME_NS, SEED, HOSTNAME, ENV (instead of those of SETUP), NONCE,
	 * and STREAM: the one stream that goes on, with full credit both ways. Others
	 * are gone without a word, but their processes go on, and what they write is
	 * dropped. To one whose SETUP was only a part (WIRE_RESUME_BEGIN) MOUNT and PATH
	 * too, as in SETUP */
	WIRE_RESUME,

	/* client: start a process. ARG (1+), ENV (0+, K=V: with that of SETUP, for other
	 * names, the whole environment), CWD,
	 * FLAGS (WIRE_EXEC_*), ROWS, COLS, UID, GID (default: the server's own) */
	WIRE_EXEC = 16,
	WIRE_STARTED, /* server: PID, SINCE */
	/* server, instead of what was asked: ERRNO, TEXT (what failed; for EXEC the
	 * program, or with CWD the working directory, which is at fault then). A FILE
	 * stream may also fail after its first RESULT. Then CLOSE follows. */
	WIRE_FAILED,
	WIRE_EXIT, /* server: CODE or SIGNAL. Sent after the EOF of stdout and stderr, or
		      1 s after the process ended if something else holds them open */
	WIRE_SIGNAL, /* client: u32 signal number, to the process group */
	WIRE_RESIZE, /* client: u16 rows, u16 cols */

	WIRE_DATA = 24, /* both: bytes (1..WIRE_PAYLOAD_MAX); stdin from the client, 1 and
			   2 from the server. PORT and FILE streams: 0 to the server, 1
			   from it */
	/* both: no more DATA on this descriptor; empty payload. From the client with sub
	 * 1 or 2: it reads no more of that output, and the process there gets SIGPIPE */
	WIRE_EOF,
	WIRE_WINDOW_ADD, /* both, by the receiver of DATA: u32 further credit */
	WIRE_CLOSE,      /* both: see above; empty payload */

	/* client: sub = enum wire_file_op; PATH (absolute), PATH2, MODE, FLAGS, UID, GID,
	   ... */
	WIRE_FILE = 32,
	/* server: success of a FILE or PORT request; STAT gives MODE SIZE MTIME_NS UID
	 * GID and TARGET for a symlink. READ and LIST: RESULT comes first, then DATA,
	 * EOF. WRITE: the client sends DATA and EOF; RESULT when all is on its way,
	 * RESULT again when the file is in place. Others: one RESULT. Then CLOSE. */
	WIRE_RESULT,
	/* client: connect to a port inside: PORT (TCP on 127.0.0.1, then ::1) or PATH
	 * (unix socket). RESULT, then DATA both ways, EOF each way, CLOSE. */
	WIRE_PORT,
	/* client: NAME = what to tell: "ps". RESULT, DATA (text, see PROTOCOL), EOF,
	   CLOSE */
	WIRE_INFO,

	/* client to keeper only (the guest refuses them): NAME = verb, TEXT = JSON
	 * arguments. RESULT with TEXT = JSON, or FAILED with CODE (the negated COVE_E*),
	 * ERRNO, TEXT, HINT. Then CLOSE. */
	WIRE_KEEPER = 48,
	/* client to keeper: join the main session; FLAGS, ROWS, COLS as for EXEC.
	 * STARTED, DATA (first the ring), EXIT as for EXEC. */
	WIRE_ATTACH,
};

enum wire_file_op {
	WIRE_FILE_STAT = 1, /* of the path itself, not of what a symlink points to */
	WIRE_FILE_READ,     /* a regular file */
	WIRE_FILE_WRITE,    /* create or replace atomically, with MODE */
	WIRE_FILE_LIST,     /* DATA: entries { u8 type (d_type), u16 length, name } */
	WIRE_FILE_MKDIR,    /* with MODE; an existing directory is success */
	WIRE_FILE_SYMLINK,  /* PATH2 = target */
	WIRE_FILE_REMOVE,   /* a file, symlink or empty directory */
};

enum wire_tag {
	WIRE_A_ARG = 1,
	WIRE_A_ENV,
	WIRE_A_CWD,
	WIRE_A_FLAGS, /* u32 */
	WIRE_A_ROWS,  /* u32 */
	WIRE_A_COLS,  /* u32 */
	WIRE_A_UID,   /* u32 */
	WIRE_A_GID,   /* u32 */
	WIRE_A_PID,   /* u32 */
	WIRE_A_ERRNO, /* u32 */
	WIRE_A_TEXT,
	WIRE_A_CODE,   /* u32 */
	WIRE_A_SIGNAL, /* u32 */
	WIRE_A_PATH,
	WIRE_A_PATH2,
	WIRE_A_MODE,     /* u32: permission bits; in STAT all of st_mode */
	WIRE_A_SIZE,     /* u64 */
	WIRE_A_MTIME_NS, /* u64 */
	WIRE_A_TARGET,
	WIRE_A_PORT, /* u32 */
	WIRE_A_NAME,
	WIRE_A_HINT,
	WIRE_A_HOSTNAME,
	WIRE_A_TIME_NS,    /* u64: CLOCK_REALTIME */
	WIRE_A_SEED,       /* up to 256 random bytes */
	WIRE_A_TIMEOUT_MS, /* u32 */
	WIRE_A_AGENT,      /* EXEC: on whose behalf, for the host; the guest skips it */
	WIRE_A_TOOL,       /* the same: which tool */
	/* "tmpfs mode=OCTAL,uid=N,gid=N PATH": an empty directory in the guest's memory,
	 * of which all of them together may take half; "bind - PATH" and "file - PATH":
	 * what the root file system has there, again, on top of one (or of the disk that
	 * is the root: docs/PROTOCOL.md) */
	WIRE_A_MOUNT,
	/* u64, STARTED from a machine: the time then, on the clock that its /proc has for
	 * the starts of processes (os/who.h) */
	WIRE_A_SINCE,
	WIRE_A_NONCE,  /* 16 bytes: of the stream of connections, see ipc/netmux.h */
	WIRE_A_STREAM, /* u32 */
	WIRE_A_PIDS, /* u32, SETUP and RESUME of a machine: how many processes; 0: any */
	WIRE_A_LAST = WIRE_A_PIDS
};

enum wire_exec_flags {
	WIRE_EXEC_PTY = 1 << 0,      /* a terminal: stdin and stdout are its one stream */
	WIRE_EXEC_NO_STDIN = 1 << 1, /* stdin is /dev/null */
	WIRE_EXEC_MAIN = 1 << 2,     /* to a keeper: this is the main session */
	/* place the oneshot's end here: when this process has ended and its EXIT is sent
	 * (or it failed to start), the server ends too, without waiting for CLOSE (one
	 * round trip less) */
	WIRE_EXEC_LAST = 1 << 3,
	WIRE_EXEC_NO_OUTPUT = 1 << 4, /* stdout and stderr are /dev/null */
	WIRE_EXEC_OFFLINE = 1 << 5,   /* for the host: its connections are refused */
};

enum wire_setup_flags {
	WIRE_SETUP_SET_CLOCK = 1 << 0, /* places with a clock of their own (vm) */
	WIRE_SETUP_MACHINE = 1 << 1,   /* the root file system comes over a port */
	WIRE_SETUP_CAPTURE = 1 << 2,   /* connections leave by a port (ipc/netmux.h) */
	WIRE_SETUP_SWAP = 1 << 3,      /* one of the disks is for swap */
	WIRE_SETUP_DISK = 1 << 4,      /* the root file system is on a disk after all */
	WIRE_SETUP_PART = 1 << 5,      /* of what is to be: a RESUME brings the rest */
};

enum wire_quiesce_flags {
	WIRE_QUIESCE_ALONE = 1 << 0, /* there is no process that would have to be held */
};

enum wire_resume_flags {
	WIRE_RESUME_RESTORED =
		1 << 0, /* from what was saved: what was said since is not so */
	WIRE_RESUME_BEGIN = 1 << 1,   /* with RESTORED: the rest of its SETUP */
	WIRE_RESUME_CAPTURE = 1 << 2, /* with BEGIN: as in SETUP */
	WIRE_RESUME_SWAP = 1 << 3,
	WIRE_RESUME_OTHER = 1 << 4, /* with RESTORED: as another sandbox */
};

struct wire_frame {
	uint8_t type, sub;
	uint32_t stream;
	uint32_t len;
	const uint8_t *payload; /* len bytes, borrowed */
};

/* Writes the 12 header bytes. */
void wire_put_header(uint8_t out[WIRE_HEADER], uint8_t type, uint8_t sub, uint32_t stream,
		     uint32_t len);

/* Looks at n bytes of input. 1: *ret is a whole frame, *ret_used bytes long. 0: more
 * bytes are needed. -EPROTO: this can never become a valid frame. */
int wire_parse(const uint8_t *data, size_t n, struct wire_frame *ret, size_t *ret_used);

struct wire_attr {
	uint16_t tag;
	uint32_t len;
	const uint8_t *data; /* borrowed; strings are not terminated */
};

/* Walks the attributes of a payload. Start with *pos = 0. 1: *ret is the next one; 0: the
 * end; -EPROTO: malformed. */
int wire_next_attr(const uint8_t *payload, size_t n, size_t *pos, struct wire_attr *ret);

/* Numbers from attributes of exact size, else -EPROTO. */
int wire_attr_u32(const struct wire_attr *a, uint32_t *ret);
int wire_attr_u64(const struct wire_attr *a, uint64_t *ret);
/* A string without NUL bytes inside, copied to out with a terminator; -EPROTO if it holds
 * a NUL, -ENAMETOOLONG if it does not fit. */
int wire_attr_str(const struct wire_attr *a, char *out, size_t size);

/* Building: appends to a caller's buffer of fixed size. Overflow is remembered in
 * `overflow` and checked once at the end; nothing is written past the end. */
struct wire_out {
	uint8_t *data;
	size_t len, size;
	int overflow;
};
void wire_out_init(struct wire_out *o, void *data, size_t size);
void wire_put_attr(struct wire_out *o, uint16_t tag, const void *data, size_t n);
void wire_put_str(struct wire_out *o, uint16_t tag, const char *s);
void wire_put_u32(struct wire_out *o, uint16_t tag, uint32_t v);
void wire_put_u64(struct wire_out *o, uint16_t tag, uint64_t v);

/* Little-endian, unaligned. */
uint16_t wire_get16(const uint8_t *p);
uint32_t wire_get32(const uint8_t *p);
uint64_t wire_get64(const uint8_t *p);
void wire_set16(uint8_t *p, uint16_t v);
void wire_set32(uint8_t *p, uint32_t v);
void wire_set64(uint8_t *p, uint64_t v);

#endif
