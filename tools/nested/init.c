/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init - PID 1 of the nested machine (docs/nested.md).
 *
 * Theory of operation. The kernel starts it from an initramfs that holds nothing else but
 * modules. It loads them, puts a writable layer over the host's files (virtiofs,
 * read-only) and makes that the root. From there on it is the parent of one job,
 * /.nested/job, and the machine's only voice: three virtio-serial ports, known by name,
 * carry the job's stdout and stderr and a line each on what goes on:
 *
 *     up            the job starts
 *     .             once a second: the machine is alive, however quiet the job is
 *     exit STATUS   the job has ended, as a shell would say it; the machine powers off
 *
 * The job gets pipes, not the ports: a port can be opened once only, and /dev/stderr has
 * to work inside. Whatever fails here fails the machine, with a line on the console.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define JOB "/.nested/job"

struct mount_step {
	const char *source, *target, *type, *data;
	unsigned long flags;
};

/* In the initramfs: what modules and devices need, then the root to be. */
static const struct mount_step early[] = {
	{"proc",     "/proc", "proc",     NULL, 0},
	{"sysfs",    "/sys",  "sysfs",    NULL, 0},
	{"devtmpfs", "/dev",  "devtmpfs", NULL, 0},
};
static const struct mount_step root[] = {
	{"nested",   "/host",    "virtiofs", NULL, MS_RDONLY },
	{"/dev/vda", "/scratch", "ext4",     NULL, MS_NOATIME},
};
static const char *const scratch_dirs[] = {"upper",   "work", "tmp",
					   "var-tmp", "home", "root"};
static const struct mount_step overlay = {
	"overlay", "/new", "overlay",
	"lowerdir=/host,upperdir=/scratch/upper,workdir=/scratch/work", 0};

/* Below the new root. What tests write to is plain ext4: an overlay cannot be the upper
 * layer of another one, and tmpfs has no user.* attributes in this kernel. */
static const struct mount_step late[] = {
	{"/proc",            "/new/proc",                NULL,         NULL,                    MS_MOVE},
	{"/sys",             "/new/sys",                 NULL,         NULL,                    MS_MOVE},
	{"/dev",             "/new/dev",                 NULL,         NULL,                    MS_MOVE},
	{"/scratch/tmp",     "/new/tmp",                 NULL,         NULL,                    MS_BIND},
	{"/scratch/var-tmp", "/new/var/tmp",             NULL,         NULL,                    MS_BIND},
	{"/scratch/home",    "/new/home",                NULL,         NULL,                    MS_BIND},
	{"/scratch/root",    "/new/root",                NULL,         NULL,                    MS_BIND},
	{"tmpfs",            "/new/run",                 "tmpfs",      "mode=755",              0      },
	{"tmpfs",            "/new/dev/shm",             "tmpfs",      NULL,                    0      },
	{"devpts",           "/new/dev/pts",             "devpts",     "mode=620,ptmxmode=666", 0      },
	{"securityfs",       "/new/sys/kernel/security", "securityfs", NULL,                    0      },
	{"cgroup2",          "/new/sys/fs/cgroup",       "cgroup2",    NULL,                    0      },
};

static void power_off(void)
{
	reboot(RB_AUTOBOOT); /* QEMU is told not to start again: the quickest end */
	for (;;)
		pause();
}

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	char text[400];
	int error = errno;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	dprintf(2, "nested-init: %s: %s\n", text, strerror(error));
	power_off();
	_exit(1);
}

static void mount_all(const struct mount_step *m, size_t n)
{
	for (; n > 0; m++, n--) {
		mkdir(m->target, 0755);
		if (mount(m->source, m->target, m->type, m->flags, m->data) < 0)
			die("mount %s on %s", m->source, m->target);
	}
}

/* /modules holds them under names that sort in the order of loading. */
static void load_modules(void)
{
	struct dirent **names;
	int n = scandir("/modules", &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		char path[300];
		int fd;

		if (names[i]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/modules/%s", names[i]->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || syscall(SYS_finit_module, fd, "", 0) < 0)
			die("load %s", path);
		close(fd);
		unlink(path); /* the initramfs is memory */
	}
}

/* The other processors. Until the modules are loaded the kernel calls each of them
 * thousands of times, to patch itself, and on a busy host a boot did not end in time. So
 * they come after that. */
static void start_processors(void)
{
	for (int i = 1;; i++) {
		char path[64];
		int fd;

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", i);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT)
			return;
		if (fd < 0 || write(fd, "1", 1) != 1)
			die("start processor %d", i);
		close(fd);
	}
}

static void make_root(void)
{
	mount_all(root, ARRAY_LEN(root));
	for (size_t i = 0; i < ARRAY_LEN(scratch_dirs); i++) {
		char path[64];

		snprintf(path, sizeof(path), "/scratch/%s", scratch_dirs[i]);
		if (mkdir(path, 0755) < 0)
			die("mkdir %s", path);
	}
	chmod("/scratch/tmp", 01777);
	chmod("/scratch/var-tmp", 01777);
	mount_all(&overlay, 1);
	mount_all(late, ARRAY_LEN(late));
	if (chdir("/new") < 0 || mount("/new", "/", NULL, MS_MOVE, NULL) < 0 ||
	    chroot(".") < 0 || chdir("/") < 0)
		die("change of root");
}

/* What udev and systemd would do. */
static void settle(void)
{
	struct rlimit files = {.rlim_cur = 1024, .rlim_max = 524288};
	struct group *kvm = getgrnam("kvm");
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		die("loopback");
	close(fd);
	/* As on Debian; without such a group it is everybody's. */
	if (chown("/dev/kvm", 0, kvm ? kvm->gr_gid : 0) < 0 ||
	    chmod("/dev/kvm", kvm ? 0660 : 0666) < 0)
		die("/dev/kvm");
	chmod("/dev/fuse", 0666);
	if (access("/dev/net/tun", F_OK) == 0)
		chmod("/dev/net/tun", 0666);
	symlink("/proc/self/fd", "/dev/fd");
	symlink("/proc/self/fd/0", "/dev/stdin");
	symlink("/proc/self/fd/1", "/dev/stdout");
	symlink("/proc/self/fd/2", "/dev/stderr");
	setrlimit(RLIMIT_NOFILE, &files);
	sethostname("nested", 6);
}

static int find_port(const char *want)
{
	DIR *d = opendir("/sys/class/virtio-ports");
	struct dirent *e;
	int ret = -1;

	while (d && ret < 0 && (e = readdir(d))) {
		char path[300], name[64] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name",
			 e->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (fscanf(f, "%63s", name) == 1 && strcmp(name, want) == 0) {
			snprintf(path, sizeof(path), "/dev/%s", e->d_name);
			ret = open(path, O_RDWR | O_CLOEXEC);
		}
		fclose(f);
	}
	if (d)
		closedir(d);
	return ret;
}

/* The host names its ports in messages that arrive after the driver is there. */
static int open_port(const char *want)
{
	int fd = -1;

	for (int i = 0; i < 500 && (fd = find_port(want)) < 0; i++)
		usleep(10 * 1000);
	if (fd < 0)
		die("port %s", want);
	return fd;
}

static void put(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno != EINTR)
			die("write to the host");
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

/* One way from the job to the host. */
struct pipe_end {
	int from, to;
};

static pid_t start_job(struct pipe_end ends[2])
{
	int out[2], err[2], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;
	pid_t pid;

	if (null < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
		die("pipes of the job");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setsid();
		dup2(null, 0);
		dup2(out[1], 1);
		dup2(err[1], 2);
		execl("/bin/sh", "sh", JOB, (char *)NULL);
		_exit(127);
	}
	close(null);
	close(out[1]);
	close(err[1]);
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	ends[0].from = out[0];
	ends[1].from = err[0];
	return pid;
}

/* Carries what is there; false when there is nothing, now or ever. */
static bool carry(struct pipe_end *p)
{
	char data[4096]; /* a page: one buffer of the port */
	ssize_t n = p->from < 0 ? 0 : read(p->from, data, sizeof(data));

	if (n == 0 && p->from >= 0) {
		close(p->from);
		p->from = -1;
	}
	if (n <= 0)
		return false;
	put(p->to, data, (size_t)n);
	return true;
}

/* True when the job is among the dead; orphans are everybody's and only reaped. */
static bool reap(int signals, pid_t job, int *ret_status)
{
	struct signalfd_siginfo info;
	bool ended = false;
	int status;
	pid_t pid;

	while (read(signals, &info, sizeof(info)) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == job) {
			ended = true;
			*ret_status = WIFEXITED(status) ? WEXITSTATUS(status)
							: 128 + WTERMSIG(status);
		}
	return ended;
}

static int watch_job(pid_t job, struct pipe_end ends[2], int control, int signals)
{
	struct itimerspec second = {.it_interval.tv_sec = 1, .it_value.tv_sec = 1};
	int beat = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	uint64_t beats;
	int status = 0;

	if (beat < 0 || timerfd_settime(beat, 0, &second, NULL) < 0)
		die("timer");
	for (;;) {
		struct pollfd p[] = {
			{.fd = signals,      .events = POLLIN},
			{.fd = beat,         .events = POLLIN},
			{.fd = ends[0].from, .events = POLLIN},
			{.fd = ends[1].from, .events = POLLIN},
		};

		poll(p, ARRAY_LEN(p), -1);
		if (read(beat, &beats, sizeof(beats)) > 0)
			put(control, ".\n", 2);
		carry(&ends[0]);
		carry(&ends[1]);
		if ((p[0].revents & POLLIN) && reap(signals, job, &status))
			break;
	}
	/* What it wrote before it ended; not what something else may still write. */
	for (int i = 0; i < 64 && (carry(&ends[0]) | carry(&ends[1])); i++)
		;
	return status;
}

int main(void)
{
	struct pipe_end ends[2];
	int control, signals, status;
	sigset_t child;
	pid_t job;

	mount_all(early, ARRAY_LEN(early));
	load_modules();
	start_processors();
	make_root();
	settle();
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signals = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
	control = open_port("nested.control");
	ends[0].to = open_port("nested.out");
	ends[1].to = open_port("nested.err");
	put(control, "up\n", 3);
	job = start_job(ends);
	status = watch_job(job, ends, control, signals);
	dprintf(control, "exit %d\n", status);
	power_off();
}
