/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reaper SECONDS CMD... - runs a script test as the parent of everything it starts.
 *
 * It is a child subreaper, so a process that a test leaves behind, even one that made
 * itself a daemon, becomes a child of this one: the harness finds it there and fails the
 * test, and here it is killed in the end. Nothing is matched by name. Also the time limit
 * of a test. The exit status is the command's; 124 after the time limit. SIGTERM and
 * SIGINT go on to the command, which then has a while to tidy up.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int parent_of(const char *pid)
{
	char path[300], text[512], *end;
	int ppid = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	end = strrchr(text, ')'); /* the name may hold anything */
	if (end && sscanf(end + 1, " %*c %d", &ppid) != 1)
		ppid = -1;
	return ppid;
}

/* Kills direct children; the rest comes up as they die. */
static void kill_children(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
		    parent_of(e->d_name) == getpid())
			kill((pid_t)strtol(e->d_name, NULL, 10), SIGKILL);
	if (d)
		closedir(d);
}

enum { TIDY_SECONDS = 20 };

/* Reaps until `want` has ended (its status is returned) or the time is over (-1). */
static int wait_child(pid_t want, time_t deadline, const sigset_t *set)
{
	struct timespec step = {.tv_nsec = 100 * 1000 * 1000};
	int status, sig;
	pid_t pid;

	while (time(NULL) < deadline) {
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			if (pid == want)
				return status;
		if (pid < 0 && errno == ECHILD)
			return -1;
		sig = sigtimedwait(set, NULL, &step);
		if (sig != SIGTERM && sig != SIGINT)
			continue;
		kill(want, SIGTERM);
		if (deadline > time(NULL) + TIDY_SECONDS)
			deadline = time(NULL) + TIDY_SECONDS;
	}
	return -1;
}

int main(int argc, char **argv)
{
	time_t limit = argc > 2 ? time(NULL) + strtol(argv[1], NULL, 10) : 0;
	char self[16];
	sigset_t set;
	pid_t pid;
	int status;

	if (argc < 3)
		return 125;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGTERM, SIG_DFL); /* what is ignored would not be seen */
	signal(SIGINT, SIG_DFL);
	snprintf(self, sizeof(self), "%d", getpid());
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ||
	    setenv("COVE_TEST_REAPER", self, 1) < 0)
		return 125;
	pid = fork();
	if (pid < 0)
		return 125;
	if (pid == 0) {
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		/* Whoever started the tests may ignore signals (nohup), and a shell
		 * cannot undo that; tests about signals need the default. */
		for (int sig = 1; sig < NSIG; sig++)
			signal(sig, SIG_DFL);
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(127);
	}
	status = wait_child(pid, limit, &set);
	if (status < 0)
		printf("not ok - the test ended in time # limit %s s\n", argv[1]);
	fflush(stdout);
	for (int i = 0; i < 100; i++) {
		kill_children();
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
			break;
		usleep(20 * 1000);
	}
	if (status < 0)
		return 124;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
