/* SPDX-License-Identifier: Apache-2.0 */
/* image_unpack - has cove-untar unpack a tar file. */
#include "core/image_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "os/program.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>

#define REPORT_MAX 1024

/* Its text names paths of the archive: nothing in it may drive a terminal. */
static int unpack_failed(struct buf *text, int status, struct cove_error *err)
{
	for (size_t i = 0; i < text->len; i++)
		if ((unsigned char)text->data[i] < 0x20 || text->data[i] == 0x7f)
			text->data[i] = '?';
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		return fail(err, COVE_EIO, 0, "unpack: %s",
			    text->len ? text->data : "failed");
	fail(err, COVE_EDAMAGED, 0, "not a tar file that can be used: %s",
	     text->len ? text->data : "its reader was killed");
	return hint(err, "'tar -tvf FILE' lists what is in it; resources.diskGiB bounds "
			 "what may come of it");
}

static bool parse_facts(const struct buf *text, struct image_facts *ret)
{
	unsigned long long entries, devices;

	if (!text->data || sscanf(text->data, "%llu %llu", &entries, &devices) != 2)
		return false;
	*ret = (struct image_facts){entries, devices};
	return true;
}

int image_unpack(int file, int dir, uint64_t bytes_max, struct image_facts *ret,
		 struct cove_error *err)
{
	static _Thread_local char cache[PATH_MAX];
	const char *program = program_find(cache, "cove-untar", "COVE_UNTAR", err);
	cleanup_buf struct buf text = BUF_INIT(REPORT_MAX);
	char most[24];
	const char *const argv[] = {"cove-untar", most, NULL};
	int p[2], status = -1, r;
	pid_t pid = 0;

	if (!program)
		return err->code;
	snprintf(most, sizeof(most), "%llu", (unsigned long long)bytes_max);
	if (pipe2(p, O_CLOEXEC) < 0)
		return fail(err, COVE_EIO, errno, "pipe");
	cleanup_fd int report = p[0];
	cleanup_fd int out = p[1];
	/* 0: the archive, 1: its report, 3: the directory; nothing else. */
	r = program_spawn_args(program, argv, (const int[]){file, out, -1, dir}, &pid);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "start %s", program);
	close_fd(&out);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	read_fd(report, &text);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 && parse_facts(&text, ret)
		       ? 0
		       : unpack_failed(&text, status, err);
}
