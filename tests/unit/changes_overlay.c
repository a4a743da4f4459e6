/* SPDX-License-Identifier: Apache-2.0 */
/* The change list of what the real overlayfs leaves, in a user namespace and without. */
#include "change_list.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

static bool write_map(const char *name, unsigned id)
{
	char text[32], path[32];
	int fd, n = snprintf(text, sizeof(text), "0 %u 1", id);

	snprintf(path, sizeof(path), "/proc/self/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, (size_t)n) == n;

	closep(&fd);
	return ok;
}

/* Runs script on the overlay, in namespaces of its own. 0, or 77: not possible here. */
static int inside(const struct fixture *f, const char *script, bool userns)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	pid_t pid = fork();
	int status, fd;

	if (pid == 0) {
		char options[400], where[100];

		snprintf(where, sizeof(where), "%s/mnt", f->top);
		snprintf(options, sizeof(options),
			 "lowerdir=%s/host,upperdir=%s/m0/upper,workdir=%s/m0/work,"
			 "userxattr,volatile",
			 f->top, f->top, f->top);
		mkdir(where, 0755);
		if (unshare(userns ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) < 0)
			_exit(77);
		fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
		if (userns && (fd < 0 || write(fd, "deny", 4) != 4 ||
			       !write_map("uid_map", uid) || !write_map("gid_map", gid)))
			_exit(77);
		if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("overlay", where, "overlay", 0, options) < 0 ||
		    chdir(where) < 0)
			_exit(77);
		execl("/bin/sh", "sh", "-ec", script, (char *)NULL);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static const char script[] =
	"mv moved moved-to; echo more >>moved-to; mv plain plain-to; rm deleted; "
	"touch touched; chmod 700 chmodded; ln linked linked2; "
	"rm -r again; mkdir again; echo new >again/new; "
	"mv tree tree2; mkdir -p deep/er; : >deep/er/f";

static void look_at_real(const struct fixture *f, bool userns)
{
	struct changes c = list_of(f, NULL, 0);
	const struct change *r = find(&c, "moved-to");

	/* in a user namespace the kernel does not note which file it was */
	OK(r && r->kind == (userns ? COVE_ADDED : COVE_RENAMED) &&
		   r->what == COVE_WHAT_CONTENT &&
		   (userns || strcmp(r->from, "moved") == 0),
	   "a move with an edit: what is proved by the kernel's note");
	r = find(&c, "plain-to");
	OK(r && r->kind == COVE_RENAMED && r->what == 0, "mv");
	OK(find(&c, "deleted") && find(&c, "deleted")->kind == COVE_DELETED, "rm");
	OK(!find(&c, "touched"), "touch");
	OK(is(&c, "chmodded", COVE_ATTRS, COVE_WHAT_MODE), "chmod");
	OK(!find(&c, "linked") && find(&c, "linked2"), "ln");
	OK(find(&c, "again/lost") && find(&c, "again/new") && !find(&c, "again"),
	   "rm -r and mkdir");
	r = find(&c, "tree2/one");
	OK(r && r->kind == COVE_RENAMED && strcmp(r->from, "tree/one") == 0,
	   "what was in a moved directory");
	OK(find(&c, "deep/er/f") && find(&c, "deep/er"), "new tree");
	changes_clear(&c);
}

static void real_overlay(bool userns)
{
	struct fixture f;
	int r;

	fixture_init(&f);
	int host = f.layer.lower;
	put(host, "moved", "will be moved and edited\n");
	put(host, "plain", "will be moved\n");
	put(host, "deleted", "x");
	put(host, "touched", "x");
	put(host, "chmodded", "x");
	put(host, "linked", "link\n");
	dir(host, "tree");
	put(host, "tree/one", "1\n");
	put(host, "tree/two", "22\n");
	dir(host, "again");
	put(host, "again/lost", "lost\n");
	fflush(stdout);
	r = inside(&f, script, userns);
	if (r == 77)
		SKIP("no overlayfs here");
	else
		OK(r == 0, "the script ran inside: %d", r);
	if (r == 0)
		look_at_real(&f, userns);
	fixture_clear(&f);
}

int main(void)
{
	umask(022);
	real_overlay(true);
	if (geteuid() == 0)
		real_overlay(false);
	return tap_done();
}
