/* SPDX-License-Identifier: Apache-2.0 */
/* `cove-guest --stdio` from outside: processes, their bytes, their ends. */
#include "guest_client.h"
#include "tap.h"

static char guest[PATH_MAX];

static struct reply *run(struct client *c, uint32_t id, uint32_t flags,
			 const char *script)
{
	struct exec_opts o = {.flags = flags};

	client_exec(c, id, &o, ARGV("sh", "-c", script));
	return client_close_of(c, id, 10000);
}

static bool said(const struct reply *r, int which, const char *text)
{
	return r->got[which] == strlen(text) &&
	       memcmp(r->out[which], text, strlen(text)) == 0;
}

static void exit_and_output(struct client *c)
{
	struct reply *r = run(c, 1, WIRE_EXEC_NO_STDIN, "echo out; echo err >&2; exit 7");

	OK(r->started && r->pid > 1 && r->code == 7 && r->signal == -1, "exit code 7");
	OK(said(r, 0, "out\n") && said(r, 1, "err\n"), "stdout and stderr apart");
	OK(r->eof[0] && r->eof[1] && r->closed, "both ended, then CLOSE");
	r = run(c, 2, WIRE_EXEC_NO_STDIN, "kill -9 $$");
	OK(r->signal == 9 && r->code == -1, "death by signal 9");
	r = run(c, 3, WIRE_EXEC_NO_STDIN | WIRE_EXEC_NO_OUTPUT, "echo x; exit 3");
	OK(r->code == 3 && r->got[0] == 0, "no output asked for");
	r = run(c, 4, WIRE_EXEC_NO_STDIN, "wc -c; ls /proc/self/fd");
	OK(said(r, 0, "0\n0\n1\n2\n3\n"), "stdin is empty; only 0, 1, 2 (and ls's own)");
	r = run(c, 5, WIRE_EXEC_NO_STDIN,
		"grep -E 'Sig(Blk|Ign)' /proc/self/status | cut -f2 | sort -u; "
		"ps -o sid= -p $$ | tr -d ' ' | grep -qx $$ && echo session");
	OK(said(r, 0, "0000000000000000\nsession\n"), "clean signals, own session");
}

static void failures(struct client *c)
{
	struct exec_opts nowhere = {.cwd = "/no/such/place"};
	struct exec_opts path = {.env = "PATH=/etc"};
	struct reply *r;

	client_exec(c, 6, NULL, ARGV("no-such-command"));
	r = client_close_of(c, 6, 30000);
	OK(r->failed && !r->started && r->error == ENOENT && r->closed, "not found");
	OK(strcmp(r->text, "no-such-command") == 0, "and it is named");
	client_exec(c, 7, NULL, ARGV("/etc/passwd"));
	OK(client_close_of(c, 7, 30000)->error == EACCES, "not executable");
	client_exec(c, 8, &path, ARGV("passwd"));
	OK(client_close_of(c, 8, 30000)->error == EACCES,
	   "not executable, found by PATH");
	client_exec(c, 9, &nowhere, ARGV("true"));
	r = client_close_of(c, 9, 30000);
	OK(r->error == ENOENT && strstr(r->text, "/no/such/place"), "no such directory");
	client_exec(c, 10, NULL, ARGV("/"));
	OK(client_close_of(c, 10, 30000)->error == EACCES, "a directory");
	link_send(&c->link, WIRE_EXEC, 0, 11, NULL, 0);
	OK(client_close_of(c, 11, 30000)->error == EINVAL, "no command at all");
	link_send(&c->link, WIRE_KEEPER, 0, 12, NULL, 0);
	OK(client_close_of(c, 12, 30000)->error == EOPNOTSUPP,
	   "a request for the keeper");
}

static void send_data(struct client *c, uint32_t id, const void *p, size_t n)
{
	client_stream(c, id)->to.credit -= (uint32_t)n;
	link_send(&c->link, WIRE_DATA, 0, id, p, n);
}

static void input(struct client *c)
{
	static uint8_t block[32768];
	struct reply *r;
	uint64_t sent = 0;
	uint8_t p[4];
	int64_t end;

	client_exec(c, 13, NULL, ARGV("cat"));
	send_data(c, 13, "hello", 5);
	link_send(&c->link, WIRE_EOF, 0, 13, NULL, 0);
	r = client_close_of(c, 13, 30000);
	OK(r->code == 0 && said(r, 0, "hello"), "through cat");

	client_exec(c, 14, NULL, ARGV("wc", "-c"));
	r = client_stream(c, 14);
	while (sent < 16u << 20 && !c->over) {
		if (r->to.credit >= sizeof(block) && link_room(&c->link) > LINK_RESERVE) {
			send_data(c, 14, block, sizeof(block));
			sent += sizeof(block);
		} else {
			client_turn(c, 100);
		}
	}
	while (link_send(&c->link, WIRE_EOF, 0, 14, NULL, 0) < 0)
		client_turn(c, 100);
	client_close_of(c, 14, 30000);
	OK(said(r, 0, "16777216\n"), "16 MiB of input, all counted");

	/* A reader that is gone: the bytes vanish, the credit still comes back. */
	client_exec(c, 15, NULL,
		    ARGV("sh", "-c",
			 "trap 'echo done; exit 0' TERM; exec <&-; "
			 "while :; do sleep 0.05; done"));
	r = client_stream(c, 15);
	end = client_ms() + 30000;
	for (sent = 0; sent < 4u << 20 && client_turn(c, 10) && client_ms() < end;)
		while (r->to.credit >= sizeof(block) &&
		       link_room(&c->link) > LINK_RESERVE && sent < 4u << 20) {
			send_data(c, 15, block, sizeof(block));
			sent += sizeof(block);
		}
	wire_set32(p, SIGTERM);
	link_send(&c->link, WIRE_SIGNAL, 0, 15, p, 4);
	client_close_of(c, 15, 30000);
	OK(sent == 4u << 20 && said(r, 0, "done\n"), "input nobody reads: %llu",
	   (unsigned long long)sent);
}

static void one_slow_reader(struct client *c)
{
	struct reply *slow = client_stream(c, 16), *r;
	int64_t t = client_ms();
	uint8_t p[4];

	slow->stop_credit = true;
	client_exec(c, 16, NULL, ARGV("head", "-c", "8M", "/dev/zero"));
	while (slow->got[0] < WIRE_WINDOW && client_ms() - t < 30000)
		client_turn(c, 50);
	r = run(c, 17, WIRE_EXEC_NO_STDIN, "head -c 4M /dev/zero");
	OK(r->got[0] == 4 << 20 && r->code == 0, "another stream goes on");
	client_turn(c, 100);
	OK(slow->got[0] == WIRE_WINDOW && !slow->closed,
	   "the slow one waits, at its window");
	slow->stop_credit = false;
	wire_set32(p, flow_consumed(&slow->in[0], WIRE_WINDOW));
	link_send(&c->link, WIRE_WINDOW_ADD, 1, 16, p, 4);
	client_close_of(c, 16, 30000);
	OK(slow->got[0] == 8 << 20 && slow->code == 0, "and ends well when it reads");
}

static void output_nobody_reads(struct client *c)
{
	struct reply *r = client_stream(c, 25);

	client_exec(c, 25, NULL, ARGV("yes"));
	while (r->got[0] < 1000 && client_turn(c, 100))
		;
	link_send(&c->link, WIRE_EOF, 1, 25, NULL, 0);
	client_close_of(c, 25, 30000);
	OK(r->signal == SIGPIPE && r->closed, "EOF for stdout: SIGPIPE");
}

static void signals_and_closing(struct client *c)
{
	struct reply *r = client_stream(c, 18);
	uint8_t p[4];
	int64_t t;

	client_exec(c, 18, NULL,
		    ARGV("sh", "-c",
			 "trap 'echo got; exit 5' TERM; echo up; "
			 "while :; do sleep 0.05; done"));
	for (t = client_ms(); r->got[0] < 3 && client_ms() - t < 30000;)
		client_turn(c, 50);
	wire_set32(p, SIGTERM);
	link_send(&c->link, WIRE_SIGNAL, 0, 18, p, 4);
	client_close_of(c, 18, 30000);
	OK(r->code == 5 && said(r, 0, "up\ngot\n"), "SIGTERM is handled by it");

	t = client_ms();
	r = run(c, 19, WIRE_EXEC_NO_STDIN, "echo parent; sleep 30 & exit 4");
	t = client_ms() - t;
	OK(r->code == 4 && said(r, 0, "parent\n") && t >= 900 && t < 28000,
	   "a child that holds the output: EXIT after a second (%d ms)", (int)t);

	client_exec(c, 20, NULL, ARGV("sleep", "30"));
	r = client_stream(c, 20);
	client_until(c, &r->started, 30000);
	t = client_ms();
	link_send(&c->link, WIRE_CLOSE, 0, 20, NULL, 0);
	r->closed = false;
	client_close_of(c, 20, 30000);
	OK(r->closed && client_ms() - t < 15000 && r->code == -1, "our CLOSE ends it");
	OK(kill((pid_t)r->pid, 0) < 0 && errno == ESRCH, "the process is gone");

	client_exec(c, 21, NULL,
		    ARGV("sh", "-c", "trap '' HUP; echo up; sleep 30; sleep 30"));
	r = client_stream(c, 21);
	while (r->got[0] < 3 && client_turn(c, 50))
		;
	t = client_ms();
	link_send(&c->link, WIRE_CLOSE, 0, 21, NULL, 0);
	client_close_of(c, 21, 30000);
	t = client_ms() - t;
	OK(r->closed && t >= 1900 && t < 28000, "SIGKILL after two seconds (%d ms)",
	   (int)t);
}

static void terminal(struct client *c)
{
	struct exec_opts o = {.flags = WIRE_EXEC_PTY, .rows = 33, .cols = 99};
	struct reply *r = client_stream(c, 22);
	uint8_t p[4];

	client_exec(c, 22, &o,
		    ARGV("sh", "-c", "stty size; read x; stty size; echo \"<$x>\"; tty"));
	while (!memchr(r->out[0], '\n', CLIENT_KEEP) && client_turn(c, 50))
		;
	wire_set16(p, 40);
	wire_set16(p + 2, 120);
	link_send(&c->link, WIRE_RESIZE, 0, 22, p, 4);
	send_data(c, 22, "abc\n", 4);
	client_close_of(c, 22, 30000);
	OK(strstr((char *)r->out[0], "33 99\r\n"), "size from the start");
	OK(strstr((char *)r->out[0], "40 120\r\n"), "size after RESIZE");
	OK(strstr((char *)r->out[0], "<abc>\r\n") &&
		   strstr((char *)r->out[0], "/dev/pts/"),
	   "it reads a line from a terminal");
	OK(r->code == 0 && r->eof[0] && !r->eof[1], "one output, and it ended");

	client_exec(c, 23, &o, ARGV("cat"));
	r = client_stream(c, 23);
	client_until(c, &r->started, 30000);
	send_data(c, 23, "line\n", 5);
	send_data(c, 23, "\003", 1);
	client_close_of(c, 23, 30000);
	OK(r->signal == SIGINT, "Ctrl-C is a signal (%d %d)", r->code, r->signal);

	client_exec(c, 24, &o, ARGV("cat"));
	r = client_stream(c, 24);
	send_data(c, 24, "x\n", 2);
	link_send(&c->link, WIRE_EOF, 0, 24, NULL, 0);
	client_close_of(c, 24, 30000);
	OK(r->code == 0 && strstr((char *)r->out[0], "x\r\nx\r\n"),
	   "EOF ends a terminal's input");
}

static void many_at_once(struct client *c)
{
	int good = 0;

	for (uint32_t id = 30; id < 62; id++)
		client_exec(c, id, NULL,
			    ARGV("sh", "-c", "head -c 100000 /dev/zero; exit 9"));
	for (uint32_t id = 30; id < 62; id++) {
		struct reply *r = client_close_of(c, id, 20000);

		good += r->code == 9 && r->got[0] == 100000;
	}
	OK(good == 32, "32 at once: %d", good);
}

static void last_ends_the_guest(void)
{
	struct exec_opts o = {.flags = WIRE_EXEC_LAST | WIRE_EXEC_NO_STDIN};
	struct client c;
	struct reply *r;

	client_open(&c, guest);
	client_hello(&c);
	client_exec(&c, 1, &o, ARGV("sh", "-c", "echo bye; exit 11"));
	client_drain(&c);
	r = client_stream(&c, 1);
	OK(r->code == 11 && said(r, 0, "bye\n") && c.over,
	   "LAST: EXIT, then the link closes");
	OK(client_end(&c) == 0, "the guest ended well");
	client_open(&c, guest);
	client_hello(&c);
	client_exec(&c, 1, &o, ARGV("/no/such"));
	client_drain(&c);
	OK(client_stream(&c, 1)->error == ENOENT && client_end(&c) == 0,
	   "LAST that failed");
}

static void end_of_link_kills(void)
{
	struct client c;
	struct reply *r;
	pid_t pid;

	client_open(&c, guest);
	client_hello(&c);
	client_exec(&c, 1, NULL, ARGV("sh", "-c", "setsid sleep 77 & echo $!; wait"));
	r = client_stream(&c, 1);
	while (r->got[0] < 2 && client_turn(&c, 100))
		;
	pid = (pid_t)r->pid;
	OK(pid > 1 && kill(pid, 0) == 0, "it runs");
	OK(client_end(&c) == 0, "the link closes, the guest ends");
	OK(kill(pid, 0) < 0 && errno == ESRCH, "and so did what it ran");
}

static void environment_of_setup(void)
{
	struct exec_opts own = {.flags = WIRE_EXEC_NO_STDIN, .env = "A=mine"};
	struct exec_opts other = {.flags = WIRE_EXEC_NO_STDIN, .env = "AB=x"};
	uint8_t p[256];
	struct wire_out o;
	struct client c;

	wire_out_init(&o, p, sizeof(p));
	wire_put_str(&o, WIRE_A_ENV, "A=given");
	wire_put_str(&o, WIRE_A_ENV, "B=with=sign");
	client_open(&c, guest);
	client_hello(&c);
	link_send(&c.link, WIRE_SETUP, 0, 0, p, o.len);
	client_exec(&c, 1, &other, ARGV("/usr/bin/env"));
	OK(said(client_close_of(&c, 1, 30000), 0, "A=given\nB=with=sign\nAB=x\n"),
	   "every process begins with the variables of SETUP");
	client_exec(&c, 2, &own, ARGV("/usr/bin/env"));
	OK(said(client_close_of(&c, 2, 30000), 0, "B=with=sign\nA=mine\n"),
	   "unless it has its own of that name");
	client_end(&c);
	wire_out_init(&o, p, sizeof(p));
	wire_put_str(&o, WIRE_A_ENV, "no sign");
	client_open(&c, guest);
	client_hello(&c);
	link_send(&c.link, WIRE_SETUP, 0, 0, p, o.len);
	client_drain(&c);
	OK(strstr(c.bye, "ENV"), "what is none is refused: %s", c.bye);
	client_end(&c);
}

int main(void)
{
	struct client c;

	if (!client_guest_path(guest, sizeof(guest))) {
		SKIP("cove-guest is not built");
		return tap_done();
	}
	signal(SIGPIPE, SIG_IGN); /* it must not reach what the guest runs */
	client_open(&c, guest);
	client_hello(&c);
	exit_and_output(&c);
	failures(&c);
	input(&c);
	one_slow_reader(&c);
	output_nobody_reads(&c);
	signals_and_closing(&c);
	terminal(&c);
	many_at_once(&c);
	OK(!c.over && c.bye[0] == '\0', "one connection for all of it");
	OK(client_end(&c) == 0, "the guest ended well");
	last_ends_the_guest();
	end_of_link_kills();
	environment_of_setup();
	return tap_done();
}
