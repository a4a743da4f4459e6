/* SPDX-License-Identifier: Apache-2.0 */
/* `cove-guest --stdio` from outside: files, ports, information, set-up and the end. */
#include "guest_client.h"
#include "tap.h"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>

static char guest[PATH_MAX], dir[64];
static uint32_t next_id = 1;

static const char *in_dir(const char *name)
{
	static char path[4][128];
	static unsigned turn;
	char *p = path[turn++ % 4];

	snprintf(p, 128, "%s/%s", dir, name);
	return p;
}

static struct reply *request(struct client *c, uint8_t type, uint8_t sub,
			     struct wire_out *o)
{
	uint32_t id = next_id++ % CLIENT_STREAMS;

	id = id ? id : next_id++ % CLIENT_STREAMS;
	free(c->reply[id]);
	c->reply[id] = NULL;
	client_stream(c, id);
	link_send(&c->link, type, sub, id, o->data, o->len);
	return c->reply[id];
}

static uint32_t id_of(const struct client *c, const struct reply *r)
{
	for (uint32_t i = 0; i < CLIENT_STREAMS; i++)
		if (c->reply[i] == r)
			return i;
	return 0;
}

static struct reply *file(struct client *c, enum wire_file_op op, const char *path,
			  const char *path2, uint32_t mode)
{
	uint8_t p[8192];
	struct wire_out o;

	wire_out_init(&o, p, sizeof(p));
	wire_put_str(&o, WIRE_A_PATH, path);
	if (path2)
		wire_put_str(&o, WIRE_A_PATH2, path2);
	if (mode)
		wire_put_u32(&o, WIRE_A_MODE, mode);
	return request(c, WIRE_FILE, (uint8_t)op, &o);
}

static struct reply *done(struct client *c, struct reply *r)
{
	client_until(c, &r->closed, 10000);
	return r;
}

static struct reply *write_file(struct client *c, const char *path, const char *text,
				uint32_t mode)
{
	struct reply *r = file(c, WIRE_FILE_WRITE, path, NULL, mode);

	if (*text)
		link_send(&c->link, WIRE_DATA, 0, id_of(c, r), text, strlen(text));
	link_send(&c->link, WIRE_EOF, 0, id_of(c, r), NULL, 0);
	return done(c, r);
}

static int entries_of(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 2;
}

static void files(struct client *c)
{
	struct reply *r = write_file(c, in_dir("a"), "first", 0640);
	struct stat st;

	OK(r->results == 2 && !r->failed, "written: RESULT twice");
	OK(stat(in_dir("a"), &st) == 0 && (st.st_mode & 07777) == 0640 && st.st_size == 5,
	   "with its mode");
	r = write_file(c, in_dir("a"), "second", 06755);
	OK(r->results == 2 && stat(in_dir("a"), &st) == 0 && st.st_size == 6, "replaced");
	r = done(c, file(c, WIRE_FILE_READ, in_dir("a"), NULL, 0));
	OK(r->results == 1 && r->got[0] == 6 && memcmp(r->out[0], "second", 6) == 0 &&
		   r->eof[0] && r->size == 6,
	   "read back");
	r = done(c, file(c, WIRE_FILE_SYMLINK, in_dir("link"), "a/b/../c", 0));
	OK(r->results == 1, "symlink made");
	r = done(c, file(c, WIRE_FILE_STAT, in_dir("link"), NULL, 0));
	OK(S_ISLNK(r->mode) && strcmp(r->target, "a/b/../c") == 0, "and not followed");
	r = done(c, file(c, WIRE_FILE_MKDIR, in_dir("d"), NULL, 01777));
	OK(r->results == 1 && stat(in_dir("d"), &st) == 0 &&
		   (st.st_mode & 07777) == 01777,
	   "directory with its mode");
	r = done(c, file(c, WIRE_FILE_MKDIR, in_dir("d"), NULL, 0700));
	OK(r->results == 1 && !r->failed, "again: success");
	r = done(c, file(c, WIRE_FILE_MKDIR, in_dir("a"), NULL, 0700));
	OK(r->error == EEXIST, "a file in its place: refused");
	r = write_file(c, in_dir("d"), "x", 0644);
	OK(r->failed && (r->error == EISDIR || r->error == EEXIST),
	   "no write over a directory");
	r = done(c, file(c, WIRE_FILE_LIST, dir, NULL, 0));
	OK(r->results == 1 && r->got[0] == 3 * 3 + 1 + 4 + 1, "three entries");
	r = done(c, file(c, WIRE_FILE_REMOVE, in_dir("link"), NULL, 0));
	OK(r->results == 1 && access(in_dir("link"), F_OK) < 0, "link removed");
	r = done(c, file(c, WIRE_FILE_REMOVE, in_dir("d"), NULL, 0));
	OK(r->results == 1 && access(in_dir("d"), F_OK) < 0, "directory removed");
}

static void refused_files(struct client *c)
{
	struct reply *r;

	mkfifo(in_dir("fifo"), 0600);
	OK(done(c, file(c, WIRE_FILE_READ, in_dir("fifo"), NULL, 0))->error == EINVAL,
	   "a fifo is not read");
	OK(done(c, file(c, WIRE_FILE_READ, "/dev/zero", NULL, 0))->error == EINVAL,
	   "nor a device");
	OK(done(c, file(c, WIRE_FILE_READ, dir, NULL, 0))->error == EISDIR,
	   "nor a directory");
	OK(done(c, file(c, WIRE_FILE_READ, "relative", NULL, 0))->error == EINVAL,
	   "no relative path");
	OK(done(c, file(c, WIRE_FILE_STAT, in_dir("none"), NULL, 0))->error == ENOENT,
	   "no such file");
	OK(done(c, file(c, WIRE_FILE_STAT, dir, "x", 0))->error == EOPNOTSUPP,
	   "an attribute that does not belong");
	unlink(in_dir("fifo"));
	unlink(in_dir("a"));

	r = file(c, WIRE_FILE_WRITE, in_dir("half"), NULL, 0644);
	link_send(&c->link, WIRE_DATA, 0, id_of(c, r), "half", 4);
	while (!r->results && client_turn(c, 100))
		;
	OK(entries_of(dir) == 1, "a temporary file is there");
	link_send(&c->link, WIRE_CLOSE, 0, id_of(c, r), NULL, 0);
	done(c, r);
	OK(entries_of(dir) == 0, "closed before EOF: nothing remains");
}

static void large(struct client *c)
{
	struct reply *r;
	char name[40];
	FILE *f = fopen(in_dir("big"), "w");

	OK(f && ftruncate(fileno(f), 20 << 20) == 0 && fclose(f) == 0, "20 MiB");
	r = done(c, file(c, WIRE_FILE_READ, in_dir("big"), NULL, 0));
	OK(r->got[0] == 20 << 20 && r->eof[0], "all of it comes");
	unlink(in_dir("big"));
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "entry-number-%06d-xxxxxxxxx", i);
		f = fopen(in_dir(name), "w");
		if (f)
			fclose(f);
	}
	r = file(c, WIRE_FILE_LIST, dir, NULL, 0);
	r->stop_credit = true;
	done(c, r);
	OK(r->got[0] == 5000 * (3 + 29), "5000 entries: %llu bytes",
	   (unsigned long long)r->got[0]);
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "entry-number-%06d-xxxxxxxxx", i);
		unlink(in_dir(name));
	}
}

static struct reply *connect_to(struct client *c, uint32_t port, const char *path)
{
	uint8_t p[256];
	struct wire_out o;

	wire_out_init(&o, p, sizeof(p));
	if (port)
		wire_put_u32(&o, WIRE_A_PORT, port);
	if (path)
		wire_put_str(&o, WIRE_A_PATH, path);
	return request(c, WIRE_PORT, 0, &o);
}

/* A peer that answers what it got, then ends. */
static void echo_once(struct client *c, int listener, struct reply *r, const char *what)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	char buf[64];
	ssize_t n = 0, got;
	int fd;

	link_send(&c->link, WIRE_DATA, 0, id_of(c, r), "ping", 4);
	link_send(&c->link, WIRE_EOF, 0, id_of(c, r), NULL, 0);
	client_turn(c, 100);
	fd = poll(&p, 1, 30000) == 1 ? accept(listener, NULL, NULL) : -1;
	while (client_turn(c, 20) && fd >= 0 &&
	       (got = read(fd, buf + n, sizeof(buf) - (size_t)n)))
		n += got > 0 ? got : 0;
	OK(n == 4 && memcmp(buf, "ping", 4) == 0, "%s: bytes and the end arrive", what);
	if (fd >= 0 && write(fd, "pong", 4) == 4)
		close(fd);
	done(c, r);
	OK(r->results == 1 && r->got[0] == 4 && memcmp(r->out[0], "pong", 4) == 0 &&
		   r->eof[0] && r->closed,
	   "%s: and back", what);
}

static void ports(struct client *c)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6,
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_un u = {.sun_family = AF_UNIX};
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&a, n) < 0 || listen(fd, 4) < 0)
		abort();
	getsockname(fd, (struct sockaddr *)&a, &n);
	echo_once(c, fd, connect_to(c, ntohs(a.sin_port), NULL), "tcp");
	close(fd);
	OK(done(c, connect_to(c, ntohs(a.sin_port), NULL))->error == ECONNREFUSED,
	   "nobody listens");
	OK(done(c, connect_to(c, 70000, NULL))->error == EINVAL, "no such port");
	OK(done(c, connect_to(c, 0, "/no/such/socket"))->error == ENOENT,
	   "no such socket");

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(u.sun_path, sizeof(u.sun_path), "%s", in_dir("sock"));
	if (bind(fd, (struct sockaddr *)&u, sizeof(u)) < 0 || listen(fd, 4) < 0)
		abort();
	echo_once(c, fd, connect_to(c, 0, u.sun_path), "unix");
	close(fd);
	unlink(u.sun_path);

	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	n = sizeof(a6);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a6, n) < 0 || listen(fd, 4) < 0) {
		SKIP("no IPv6 here");
		SKIP("no IPv6 here");
	} else {
		getsockname(fd, (struct sockaddr *)&a6, &n);
		echo_once(c, fd, connect_to(c, ntohs(a6.sin6_port), NULL),
			  "tcp over ::1");
	}
	if (fd >= 0)
		close(fd);
}

static struct reply *info(struct client *c, const char *name)
{
	uint8_t p[64];
	struct wire_out o;

	wire_out_init(&o, p, sizeof(p));
	wire_put_str(&o, WIRE_A_NAME, name);
	return done(c, request(c, WIRE_INFO, 0, &o));
}

static void information(struct client *c)
{
	struct reply *r = info(c, "ps");
	char want[64];

	snprintf(want, sizeof(want), "%d %d ", (int)c->pid, (int)getpid());
	r->out[0][min_size((size_t)r->got[0], CLIENT_KEEP - 1)] = '\0';
	OK(r->results == 1 && strstr((char *)r->out[0], want),
	   "ps shows the guest itself");
	OK(strstr((char *)r->out[0], "\tcove-guest --stdio\n"), "and its command line");
	OK(info(c, "nothing")->error == ENOENT, "unknown information");
}

static struct client *fresh(struct client *c)
{
	client_open(c, guest);
	client_hello(c);
	return c;
}

static void set_up(void)
{
	uint8_t p[512], seed[32] = {1};
	struct wire_out o;
	struct client c;

	wire_out_init(&o, p, sizeof(p));
	wire_put_str(&o, WIRE_A_PATH, in_dir("x/y/z"));
	wire_put_attr(&o, WIRE_A_SEED, seed, sizeof(seed));
	wire_put_u64(&o, WIRE_A_TIME_NS, 1); /* without the flag: not set */
	link_send(&fresh(&c)->link, WIRE_SETUP, 0, 0, p, o.len);
	link_send(&c.link, WIRE_PING, 0, 0, "x", 1);
	OK(client_turn(&c, 5000) && !c.bye[0], "SETUP is accepted");
	client_turn(&c, 200);
	OK(access(in_dir("x/y/z"), F_OK) == 0 && time(NULL) > 1000,
	   "its directories are made");
	rmdir(in_dir("x/y/z"));
	rmdir(in_dir("x/y"));
	rmdir(in_dir("x"));
	link_send(&c.link, WIRE_SETUP, 0, 0, p, o.len);
	client_drain(&c);
	OK(strstr(c.bye, "SETUP"), "a second one ends the connection: %s", c.bye);
	OK(client_end(&c) == 1, "with status 1");
}

static void shut_down(void)
{
	struct client c;
	struct reply *r;
	uint8_t p[12];
	struct wire_out o;
	int64_t t;

	fresh(&c);
	client_exec(&c, 1, NULL,
		    ARGV("sh", "-c",
			 "trap 'echo end; exit 0' TERM; echo up; "
			 "while :; do sleep 0.05; done"));
	client_exec(&c, 2, NULL,
		    ARGV("sh", "-c", "trap '' TERM; echo up; sleep 30; sleep 30"));
	r = client_stream(&c, 1);
	while ((r->got[0] < 3 || client_stream(&c, 2)->got[0] < 3) &&
	       client_turn(&c, 100))
		;
	wire_out_init(&o, p, sizeof(p));
	wire_put_u32(&o, WIRE_A_TIMEOUT_MS, 600);
	link_send(&c.link, WIRE_SHUTDOWN, 0, 0, p, o.len);
	t = client_ms();
	client_drain(&c);
	t = client_ms() - t;
	OK(t >= 500 && t < 15000, "it ends (%d ms)", (int)t);
	OK(r->code == 0 && memcmp(r->out[0], "up\nend\n", 7) == 0,
	   "who listens to SIGTERM ends well");
	OK(client_stream(&c, 2)->signal == SIGKILL, "who does not is killed");
	OK(client_end(&c) == 0, "and the guest ends with 0");
}

/* Each is one frame that must end the connection with a word, and nothing worse. */
static void violations(void)
{
	static const struct {
		const char *what;
		uint8_t type, sub;
		uint32_t stream;
		const char *payload;
		size_t n;
	} bad[] = {
		{"unknown type",         200,           0, 1, "",                 0},
		{"answer from a client", WIRE_EXIT,     0, 5, "",                 0},
		{"malformed attribute",  WIRE_EXEC,     0, 5, "\1\0\0\0\377\0\0", 8},
		{"cut attribute",        WIRE_EXEC,     0, 5, "\1\0\0",           3},
		{"NUL in an argument",   WIRE_EXEC,     0, 5, "\1\0\0\0\1\0\0\0", 9},
		{"malformed shutdown",   WIRE_SHUTDOWN, 0, 0, "x",                1},
		{"unknown in set-up",    WIRE_SETUP,    0, 0, "\1\0\0\0\0\0\0",   8},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct client c;

		link_send(&fresh(&c)->link, bad[i].type, bad[i].sub, bad[i].stream,
			  bad[i].payload, bad[i].n);
		client_drain(&c);
		OK(c.bye[0] && client_end(&c) == 1, "%s: %s", bad[i].what, c.bye);
	}
}

/* The same, for frames of a stream that is open. */
static void stream_violations(void)
{
	static const struct {
		const char *what;
		uint8_t type, sub;
		uint32_t stream;
		size_t n;
	} bad[] = {
		{"data for an output",  WIRE_DATA,       1, 1, 5    },
		{"credit for an input", WIRE_WINDOW_ADD, 0, 1, 4    },
		{"no credit at all",    WIRE_WINDOW_ADD, 1, 1, 4    },
		{"signal 0",            WIRE_SIGNAL,     0, 1, 4    },
		{"stream in use",       WIRE_EXEC,       0, 1, 0    },
		{"beyond the window",   WIRE_DATA,       0, 1, 60000},
	};
	static const char zero[60000];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct client c;

		client_exec(fresh(&c), 1, NULL, ARGV("sleep", "30"));
		for (int n = 0; n < 40 && !c.over; n++) {
			link_send(&c.link, bad[i].type, bad[i].sub, bad[i].stream, zero,
				  bad[i].n);
			client_turn(&c, 20);
			if (bad[i].n < 60000)
				break;
		}
		client_drain(&c);
		OK(c.bye[0] && client_end(&c) == 1, "%s: %s", bad[i].what, c.bye);
	}
}

static void limits(void)
{
	struct client c;
	struct reply *r;

	fresh(&c);
	/* Closed by the guest but never by us: they count until we answer. */
	for (uint32_t id = 1000; id < 1000 + WIRE_STREAMS_MAX; id++) {
		link_send(&c.link, WIRE_KEEPER, 0, id, NULL, 0);
		if (id % 64 == 0)
			link_flush(&c.link);
	}
	r = client_stream(&c, 1);
	link_send(&c.link, WIRE_KEEPER, 0, 1, NULL, 0);
	for (int64_t t = client_ms(); !r->closed && client_ms() - t < 30000;) {
		struct wire_frame f;

		link_flush(&c.link);
		if (link_fill(&c.link) < 0)
			break;
		while (link_next(&c.link, &f) == 1)
			if (f.stream == 1)
				client_frame(&c, &f);
	}
	OK(r->error == EAGAIN && r->closed, "one stream too many: EAGAIN");
	OK(client_end(&c) == 0, "and the guest is well");
}

int main(void)
{
	struct client c;

	if (!client_guest_path(guest, sizeof(guest))) {
		SKIP("cove-guest is not built");
		return tap_done();
	}
	snprintf(dir, sizeof(dir), "/tmp/cove-unit-XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	fresh(&c);
	files(&c);
	refused_files(&c);
	large(&c);
	ports(&c);
	information(&c);
	OK(client_end(&c) == 0, "the guest ended well");
	set_up();
	shut_down();
	violations();
	stream_violations();
	limits();
	OK(rmdir(dir) == 0, "nothing was left behind");
	return tap_done();
}
