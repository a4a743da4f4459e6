/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine - cove-guest as the first process of a kernel of its own.
 *
 * Theory of operation. We are /init in an initramfs that holds nothing but us and the
 * modules. machine_main() loads these, opens the three ports to the host and waits for
 * the first byte on the link. Then the ordinary loop runs; its SETUP calls
 * machine_setup(), which mounts the root file system that the host serves, and moves us
 * into it.
 *
 * What the host saves as a template is a machine that waits for that first byte, or one
 * that has done a part of its SETUP (WIRE_SETUP_PART) and is quiet again (quiet.c):
 * nothing that must differ between two sandboxes (clock, randomness, names, their own
 * files) may have been asked for before.
 *
 * What cannot go on ends the machine: the message is on the console, which the host
 * keeps.
 */
#include "guest/machine.h"

#include "guest/guest.h"
#include "guest/machine_disk.h"
#include "guest/machine_root.h"
#include "guest/machine_tasks.h"
#include "guest/netpump.h"
#include "guest/request.h"

#include "base/util.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define MODULES "/modules/order"
#define PORTS_DIR "/sys/class/virtio-ports"
#define PORTS_WAIT_MS 10000
#define DRAIN_MS 50 /* for what is still on its way out of the ports */

enum port { PORT_LINK, PORT_FS, PORT_NET, PORT_COUNT };
static const char *const port_names[PORT_COUNT] = {"cove.link", "cove.fs", "cove.net"};

static int ports[PORT_COUNT] = {-1, -1, -1};

/* ---- the end -------------------------------------------------------------------- */

static void nap_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* A reset is the one end that every virtual machine understands; the host runs us with
 * the rule that a reset ends it. */
__attribute__((noreturn)) static void machine_end(void)
{
	machine_disk_sync();
	nap_ms(DRAIN_MS);
	for (;;)
		reboot(RB_AUTOBOOT);
}

__attribute__((noreturn)) static void die(const char *what)
{
	printf("cove-guest: %s: %s\n", what, strerror(errno));
	machine_end();
}

/* ---- beginning ------------------------------------------------------------------ */

static void early_mounts(void)
{
	static const char *const fs[][2] = {
		{"devtmpfs", "/dev" },
                {"proc",     "/proc"},
                {"sysfs",    "/sys" }
        };
	int console;

	for (size_t i = 0; i < ARRAY_LEN(fs); i++) {
		mkdir(fs[i][1], 0755);
		if (mount(fs[i][0], fs[i][1], fs[i][0], MS_NOSUID | MS_NOEXEC, NULL) < 0)
			die(fs[i][1]);
	}
	console = open("/dev/console", O_RDWR | O_NOCTTY);
	for (int fd = 0; console >= 0 && fd < 3; fd++)
		if (console != fd)
			dup2(console, fd);
	if (console > 2)
		close(console);
	setvbuf(stdout, NULL, _IOLBF, 0);
}

static void load_module(const char *path)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
		die(path);
}

/* One path a line, in the order of their dependencies. No file: all is built in. */
static void load_modules(void)
{
	char line[256];
	FILE *f = fopen(MODULES, "re");

	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0])
			load_module(line);
	}
	fclose(f);
}

/* ---- ports ---------------------------------------------------------------------- */

static bool port_is(const char *entry, const char *name)
{
	char path[300], text[64];
	ssize_t n;

	snprintf(path, sizeof(path), PORTS_DIR "/%s/name", entry);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, name) == 0;
}

static void open_port(const char *entry)
{
	char path[300];

	snprintf(path, sizeof(path), "/dev/%s", entry);
	for (int i = 0; i < PORT_COUNT; i++)
		if (ports[i] < 0 && port_is(entry, port_names[i]))
			ports[i] = open(path, O_RDWR | O_CLOEXEC);
}

static bool have_ports(void)
{
	DIR *d = opendir(PORTS_DIR);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			open_port(e->d_name);
	if (d)
		closedir(d);
	for (int i = 0; i < PORT_COUNT; i++)
		if (ports[i] < 0)
			return false;
	return true;
}

/* The device tells of its ports in its own time. */
static void find_ports(void)
{
	int64_t until = now_ms() + PORTS_WAIT_MS;

	while (!have_ports()) {
		if (now_ms() > until) {
			errno = ENODEV;
			die("ports to the host");
		}
		nap_ms(1);
	}
}

static void wait_for_host(void)
{
	struct pollfd p = {.fd = ports[PORT_LINK], .events = POLLIN};

	while (poll(&p, 1, -1) < 0 || !(p.revents & POLLIN))
		if (p.revents)
			nap_ms(1); /* nobody holds the other end yet */
}

/* Ours alone are real-time, see quiet.c; nothing here needs protection from that. */
static void unbound_realtime(void)
{
	cleanup_fd int fd =
		open("/proc/sys/kernel/sched_rt_runtime_us", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, "-1", 2);
}

static void prepare(void)
{
	const char *what = machine_root_prepare();

	if (what)
		die(what);
	if (machine_loopback() < 0)
		die("loopback");
	machine_swap_find();
}

void machine_main(void)
{
	struct rlimit files = {65536, 65536};
	struct guest g;

	early_mounts();
	load_modules();
	machine_tasks_enter();
	unbound_realtime();
	find_ports();
	prepare();
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NAME, "cove-guest"); /* the kernel calls us init */
	setrlimit(RLIMIT_NOFILE, &files);
	umask(022);
	guest_signals(true);
	puts("cove-guest: ready");
	/* For who boots us; who restores us never sees it. */
	if (write(ports[PORT_LINK], "R", 1) != 1)
		die("the link");
	wait_for_host();
	if (guest_open(&g, ports[PORT_LINK], ports[PORT_LINK], true) < 0)
		die("the link");
	guest_run(&g);
	machine_end();
}

/* ---- SETUP ---------------------------------------------------------------------- */

static const char *start_network(bool capture)
{
	int e = capture ? netpump_start(ports[PORT_NET]) : 0;

	errno = -e;
	return e < 0 ? "network" : NULL;
}

const char *machine_finish(const struct request *r, const uint32_t user[2], char **mounts,
			   uint32_t flags)
{
	const struct machine_user who = {user[0], user[1]};
	const char *what;

	if ((flags & WIRE_SETUP_SWAP) && machine_swap_on() < 0)
		return "swap";
	what = machine_root_finish(&who, mounts);
	if (what)
		return what;
	what = start_network(flags & WIRE_SETUP_CAPTURE);
	if (what)
		return what;
	if (flags & WIRE_SETUP_CAPTURE)
		machine_tasks_count();
	return machine_tasks_limit(r->num[WIRE_A_PIDS]) < 0 ? "limit of processes" : NULL;
}

const char *machine_setup(const struct request *r)
{
	const uint32_t user[2] = {r->num[WIRE_A_UID], r->num[WIRE_A_GID]};
	const struct machine_user who = {user[0], user[1]};
	uint32_t flags = r->num[WIRE_A_FLAGS];
	char *none = NULL;
	const char *what;

	if (ports[PORT_FS] < 0) {
		errno = ENODEV;
		return "this is no machine";
	}
	what = machine_root(ports[PORT_FS], flags & WIRE_SETUP_DISK, &who,
			    r->list[WIRE_A_MOUNT]);
	machine_tasks_count();
	if (what || flags & WIRE_SETUP_PART)
		return what;
	return machine_finish(r, user, &none, flags);
}

const char *machine_reconnect(const uint8_t *nonce, size_t n)
{
	if (n != NETMUX_NONCE)
		return "a nonce of the wrong size";
	return netpump_restart(nonce) < 0 ? "network" : NULL;
}
