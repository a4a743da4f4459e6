/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ports_impl.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#define ACCEPTS_A_TURN 32

struct port {
	int fd; /* -1: this slot is free */
	struct host_end *end;
	dev_t dev; /* of a socket's file */
	ino_t ino;
	json_t *entry;
	unsigned open;
	uint64_t total;
};

struct connection {
	struct connection *next;
	struct stream *stream;
	int fd;
	uint32_t port;
	bool shut; /* the server inside has said all */
};

struct ports {
	struct session *session;
	struct store *store;
	const char *name;
	struct port port[PORTS_MAX];
	struct connection *connections;
	unsigned n_connections;
	bool accepting; /* the listeners are being watched */
	int spare;      /* given up for a moment when there are no descriptors left */
};

/* ---- connections ---------------------------------------------------------------- */

static void end_connection(struct ports *p, struct connection *c, bool reset)
{
	const struct linger now = {.l_onoff = 1, .l_linger = 0};

	if (reset)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	session_release(c->stream);
	close(c->fd);
	p->port[c->port].open--;
	p->n_connections--;
	free(c);
}

static void end_connections(struct ports *p,
			    bool (*which)(const struct connection *, uint32_t),
			    uint32_t port)
{
	struct connection **at = &p->connections;

	while (*at) {
		struct connection *c = *at;

		if (!which(c, port)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		end_connection(p, c, true);
	}
}

static bool of_port(const struct connection *c, uint32_t port)
{
	return c->port == port;
}

static bool any(const struct connection *c, uint32_t port)
{
	(void)c;
	(void)port;
	return true;
}

static struct stream *open_stream(struct ports *p, const json_t *guest,
				  struct cove_error *err)
{
	uint8_t payload[PORT_TEXT + 64];
	struct wire_out o;

	wire_out_init(&o, payload, sizeof(payload));
	if (json_is_integer(guest))
		wire_put_u32(&o, WIRE_A_PORT, (uint32_t)json_integer_value(guest));
	else
		wire_put_str(&o, WIRE_A_PATH, json_string_value(guest));
	return session_open(p->session, STREAM_PORT, WIRE_PORT, 0, payload, o.len, err);
}

static void begin_connection(struct ports *p, uint32_t which, int fd)
{
	struct connection *c = calloc(1, sizeof(*c));
	struct cove_error err = {0};
	const int on = 1;

	if (c)
		c->stream = open_stream(p, json_object_get(p->port[which].entry, "guest"),
					&err);
	if (!c || !c->stream) {
		close(fd);
		free(c);
		return;
	}
	if (!p->port[which].end->is_path)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	c->fd = fd;
	c->port = which;
	c->next = p->connections;
	p->connections = c;
	p->n_connections++;
	p->port[which].open++;
	p->port[which].total++;
	/* One that cannot be carried is refused like one that nobody inside takes. */
	if (stream_set_out(c->stream, 0, fd, &err) < 0 ||
	    stream_set_stdin(c->stream, fd, &err) < 0)
		c->stream->failed = true;
}

/* ---- accepting ------------------------------------------------------------------ */

static bool has_room(const struct ports *p)
{
	return p->n_connections < PORTS_CONNECTIONS && !session_gone(p->session) &&
	       link_room(session_link(p->session)) > LINK_RESERVE;
}

static void set_accepting(struct ports *p, bool on)
{
	if (p->accepting == on)
		return;
	p->accepting = on;
	for (uint32_t i = 0; i < PORTS_MAX; i++)
		if (p->port[i].fd >= 0)
			session_watch_port(p->session, p->port[i].fd, i, on);
}

/* No descriptor for it: told so at once, or it and we would wait forever. */
static void turn_away(struct ports *p, int listener)
{
	int fd;

	close_fd(&p->spare);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	p->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_accept(void *arg, uint32_t which)
{
	struct ports *p = arg;

	for (int i = 0; i < ACCEPTS_A_TURN && p->port[which].fd >= 0 && has_room(p);
	     i++) {
		int fd = accept4(p->port[which].fd, NULL, NULL,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0)
			begin_connection(p, which, fd);
		else if (errno == EMFILE || errno == ENFILE)
			turn_away(p, p->port[which].fd);
		else if (errno != EINTR && errno != ECONNABORTED)
			break;
	}
	set_accepting(p, has_room(p));
}

/* ---- every turn ----------------------------------------------------------------- */

/* false: it has ended. */
static bool settle_one(struct ports *p, struct connection *c)
{
	struct stream *st = c->stream;
	bool drained = st->out[0].wait.len == 0;

	if (st->failed || session_gone(p->session))
		return false;
	if (st->closed && drained)
		return false;
	if (st->out[0].eof && drained && !c->shut) {
		shutdown(c->fd, SHUT_WR);
		c->shut = true;
	}
	stream_resume(st); /* others may have taken the link's room, and left it again */
	return true;
}

static void on_settle(void *arg)
{
	struct ports *p = arg;
	struct connection **at = &p->connections;

	while (*at) {
		struct connection *c = *at;

		if (settle_one(p, c)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		end_connection(p, c, c->stream->failed);
	}
	set_accepting(p, has_room(p));
}

/* ---- the list ------------------------------------------------------------------- */

struct ports *ports_new(struct session *s, struct store *st, const char *name,
			struct cove_error *err)
{
	struct ports *p = calloc(1, sizeof(*p));

	if (!p) {
		fail_nomem(err);
		return NULL;
	}
	p->session = s;
	p->store = st;
	p->name = name;
	p->accepting = true;
	p->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < PORTS_MAX; i++)
		p->port[i].fd = -1;
	session_set_ports(s, on_accept, on_settle, p);
	return p;
}

static void close_port(struct ports *p, uint32_t i)
{
	struct port *port = &p->port[i];

	if (port->fd < 0)
		return;
	if (p->accepting)
		session_watch_port(p->session, port->fd, i, false);
	close_fd(&port->fd);
	if (port->end->is_path)
		host_end_remove(port->end, port->dev, port->ino);
	end_connections(p, of_port, i);
	json_decref(port->entry);
	free(port->end);
	*port = (struct port){.fd = -1};
}

void ports_free(struct ports *p)
{
	if (!p)
		return;
	session_set_ports(p->session, NULL, NULL, NULL);
	end_connections(p, any, 0);
	for (uint32_t i = 0; i < PORTS_MAX; i++)
		close_port(p, i);
	close_fd(&p->spare);
	free(p);
}

/* Only for messages: a list that cannot be written is no reason to fail. */
static void note_list(const struct ports *p)
{
	cleanup_buf struct buf b = BUF_INIT(2u << 20);
	cleanup_fd int dir =
		openat(p->store->run_fd, p->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (uint32_t i = 0; i < PORTS_MAX; i++)
		if (p->port[i].fd >= 0 && (buf_append(&b, p->port[i].end->text,
						      strlen(p->port[i].end->text)) < 0 ||
					   buf_append(&b, "\n", 1) < 0))
			return;
	if (dir >= 0)
		write_file_atomic(dir, PORTS_FILE, b.data ? b.data : "", b.len, 0600, 0);
}

static json_t *shown(const struct port *port)
{
	return json_pack("{s:s, s:O, s:b, s:i, s:I}", "host", port->end->text, "guest",
			 json_object_get(port->entry, "guest"), "listening", 1, "open",
			 (int)port->open, "total", (json_int_t)port->total);
}

static struct port *free_slot(struct ports *p)
{
	for (uint32_t i = 0; i < PORTS_MAX; i++)
		if (p->port[i].fd < 0)
			return &p->port[i];
	return NULL;
}

int ports_add(struct ports *p, const json_t *entry, json_t **ret_shown,
	      struct cove_error *err)
{
	struct port *port = free_slot(p);
	cleanup_free struct host_end *end = malloc(sizeof(*end));
	uint32_t i;
	int fd = -1;

	if (!port)
		return fail(err, COVE_ESTATE, 0, "ports: more than %d", PORTS_MAX);
	i = (uint32_t)(port - p->port);
	if (!end)
		return fail_nomem(err);
	if (host_end_parse(end, json_object_get(entry, "host"), p->store, p->name, err) <
		    0 ||
	    host_end_listen(end, p->store, &fd, err) < 0)
		return err->code;
	*port = (struct port){.fd = fd, .entry = json_deep_copy(entry)};
	host_end_identity(end, &port->dev, &port->ino);
	port->end = take_ptr(end);
	if (!port->entry ||
	    (p->accepting && session_watch_port(p->session, fd, i, true) < 0)) {
		close_port(p, i);
		return fail_nomem(err);
	}
	if (ret_shown)
		*ret_shown = shown(port);
	note_list(p);
	return 0;
}

int ports_add_all(struct ports *p, const json_t *list, struct cove_error *err)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(list, i, entry)
	{
		if (ports_add(p, entry, NULL, err) == 0)
			continue;
		while (i-- > 0)
			ports_remove(p, json_array_get(list, i), NULL);
		return err->code;
	}
	return 0;
}

json_t *ports_json(const struct ports *p)
{
	json_t *a = json_array();

	for (uint32_t i = 0; a && i < PORTS_MAX; i++)
		if (p->port[i].fd >= 0)
			json_array_append_new(a, shown(&p->port[i]));
	return a;
}

json_t *ports_list(const json_t *entries)
{
	json_t *a = json_array();
	const json_t *entry;
	size_t i;

	json_array_foreach(entries, i, entry)
	{
		struct cove_error ignored = {0};
		struct host_end e;

		if (host_end_parse(&e, json_object_get(entry, "host"), NULL, "",
				   &ignored) < 0)
			continue;
		json_array_append_new(
			a, json_pack("{s:s, s:O, s:b, s:i, s:i}", "host", e.text, "guest",
				     json_object_get(entry, "guest"), "listening", 0,
				     "open", 0, "total", 0));
	}
	return a;
}

/* ---- finding one ---------------------------------------------------------------- */

static void end_text(const json_t *end, char *out, size_t size)
{
	if (json_is_integer(end))
		snprintf(out, size, "%lld", (long long)json_integer_value(end));
	else
		snprintf(out, size, "%s", json_string_value(end));
}

static bool means(const char *what, const char *host, const char *guest)
{
	size_t n = strlen(host);

	return *host && (strcmp(what, host) == 0 ||
			 (strncmp(what, host, n) == 0 && what[n] == ':' &&
			  strcmp(what + n + 1, guest) == 0));
}

/* As it listens: its whole address, or the port of it. */
static bool means_listener(const struct port *port, const char *what)
{
	const char *colon = strrchr(port->end->text, ':');
	char guest[PORT_TEXT];

	end_text(json_object_get(port->entry, "guest"), guest, sizeof(guest));
	return means(what, port->end->text, guest) ||
	       (!port->end->is_path && colon && means(what, colon + 1, guest));
}

/* Entries may be equal (any free port, twice): then what is shown tells them apart. */
static const struct port *find_listener(const struct ports *p, const json_t *entry,
					const char *what)
{
	for (uint32_t i = 0; p && i < PORTS_MAX; i++)
		if (p->port[i].fd >= 0 && json_equal(p->port[i].entry, entry) &&
		    (!what || means_listener(&p->port[i], what)))
			return &p->port[i];
	return NULL;
}

int ports_find(const struct ports *p, const json_t *entries, const char *what)
{
	int by_guest = -1;
	const json_t *entry;
	size_t i;

	json_array_foreach(entries, i, entry)
	{
		char host[PORT_TEXT], guest[PORT_TEXT];

		end_text(json_object_get(entry, "host"), host, sizeof(host));
		end_text(json_object_get(entry, "guest"), guest, sizeof(guest));
		if (means(what, host, guest) || find_listener(p, entry, what))
			return (int)i;
		if (strcmp(what, guest) == 0 && by_guest < 0)
			by_guest = (int)i;
	}
	return by_guest;
}

void ports_remove(struct ports *p, const json_t *entry, const char *what)
{
	const struct port *port = what ? find_listener(p, entry, what) : NULL;

	if (!port)
		port = find_listener(p, entry, NULL);
	if (!port)
		return;
	close_port(p, (uint32_t)(port - p->port));
	note_list(p);
}
