/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend - a place: it starts cove-guest in isolation and hands back one byte stream.
 *
 * Everything above this line (exec, files, policy, lifetime) is written once, for all
 * backends. A backend says what it enforces with evidence gathered by trying: probe()
 * before anything runs, attest() while it runs.
 */
#ifndef COVE_BACKEND_BACKEND_H
#define COVE_BACKEND_BACKEND_H

#include "base/error.h"
#include "os/capture.h"
#include "os/cgroup.h"
#include "os/freeze.h"
#include "spec/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

/* A path below a mount that the sandbox must not change. */
struct place_guard {
	const char *path; /* relative to the mount's target */
	bool pin;         /* a directory on the way: writable, but not to be moved away */
};

/* A mount of the spec with all paths made absolute, or a mask. */
struct place_mount {
	const char *source; /* NULL: an empty directory in memory */
	const char *target;
	enum spec_mount_mode mode; /* copy, volume: like rw, the source is ours */
	const char *layer; /* overlay: a host directory that holds upper/ and work/ */
	const struct place_guard *guards; /* a directory comes before what is in it */
	size_t n_guards;
};

#define PLACE_MOUNTS_MAX (2 * SPEC_LIST_MAX) /* mounts and masks */

/* A file of ours, read-only over a file of the image, or where there is none. */
struct place_file {
	const char *source, *target;
	bool optional; /* the way there may be another than the image's: then it is left
			  out */
};

/* A saved machine as files that many can go on from at once. */
struct place_image {
	int ram, state, tables; /* to be read only */
};

/* A saved machine to go on from, instead of a new one. */
struct place_state {
	int file;                 /* sealed, see vm/state.h; -1: it is an image */
	const uint8_t *key;       /* 32 bytes */
	struct place_image image; /* without a file */
	const json_t *head;       /* of an image: what its file began with */
};

struct place_config {
	const struct spec *spec;
	const struct place_mount *mounts;
	size_t n_mounts;
	const struct place_file *files;
	size_t n_files;
	const char *id;        /* unique on this host: names the cgroup */
	const char *hostname;  /* inside */
	const char *hosts;     /* host file to show as /etc/hosts; NULL: the shared one */
	const char *cache_dir; /* shared between sandboxes of this user */
	const char *kernels;   /* directory of the kernels of machines */
	const char *guest;     /* path of cove-guest */
	const char *home_dir; /* host directory behind the user's home; NULL: in memory */
	const char *image_root; /* host directory of the image; NULL: it is none */
	const char *image_disk; /* host file of one that is a disk; NULL: it is none */
	const char *root_layer; /* where what is written to either goes */
	uid_t uid;              /* inside; the one id that maps outside */
	gid_t gid;
	const char *home; /* inside */
	bool degraded;    /* a limit that cannot be set is noted, not refused */
	bool account;     /* count cpu time too, for stats */
	const struct place_state *state; /* NULL: it begins */
	bool capture; /* every connection inside ends at the sockets of struct place */
	/* Called as soon as the cgroup exists, so that a killed keeper's is found again.
	 */
	void (*cgroup_made)(void *arg, const struct cgroup *c);
	void *arg;
};

/* A limit or layer that is not in force though the spec has it. */
#define PLACE_NOTES_MAX 8
struct place {
	const struct backend *backend;
	int link;    /* the byte stream to the guest; -1 once taken */
	int pidfd;   /* the guest, as the host sees it */
	pid_t pid;   /* the same, for messages and /proc */
	int etc_ref; /* keeps the shared /etc copy from being collected */
	struct cgroup cgroup;
	bool has_cgroup;
	struct freeze freeze;
	uint32_t missing;       /* CG_* limits that are not enforced */
	uint32_t missing_asked; /* of these, the ones the user asked for (--degraded) */
	uint32_t host_uid;      /* the id that the sandbox's user has outside */
	int landlock_abi;
	uint64_t nproc, fsize; /* rlimits of its processes, fixed at the start; 0: none */
	/* Sockets in the sandbox's network namespace (os/capture.h); -1 without, and once
	 * taken. */
	int capture[CAPTURE_COUNT];
	/* Of a machine, instead: the stream on which its connections come
	 * (ipc/netmux.h); -1 without, and once taken. */
	int net;
	uint8_t net_nonce[16]; /* that stream begins with these, after a restore */
	struct vm *vm;         /* of the vm backend (backend/vm_impl.h); or NULL */
	int alarm;    /* readable: a part of it has ended that it cannot do without; -1:
			 the link tells all */
	bool resumes; /* its guest is set up in part, and quiet: a RESUME takes the place
			 of SETUP */
	uint32_t sync_ms; /* how long it may take to write out what it has not written to
			     its disk; 0: it has none */
	uint32_t silence_ms; /* how long it may leave a question unanswered; 0: for ever
			      */
	uint32_t up_ms; /* how long it may take for its first word; 0: as any other */
};
/* One that never started: release() finds nothing to do. */
static inline struct place place_none(void)
{
	struct place p = {.link = -1,
			  .pidfd = -1,
			  .etc_ref = -1,
			  .freeze = FREEZE_INIT,
			  .net = -1,
			  .alarm = -1};

	for (int i = 0; i < CAPTURE_COUNT; i++)
		p.capture[i] = -1;
	return p;
}

/* What is to be explained, see explain() below. */
enum place_trouble {
	PLACE_NOT_UP, /* it never answered */
	PLACE_ENDED,  /* it had answered, and is gone */
	PLACE_SILENT, /* it had answered, and does no longer */
};

struct wire_out;
/* How the memory of a running place is saved. In this order, and `release` in any case;
 * core/keeper_save.c has the whole of it. */
struct place_saver {
	/* What works for the guest will not speak to it until `release`. */
	int (*hold)(struct place *p, struct cove_error *err);
	/* The guest is quiet, and frozen: its memory goes to the pipe `to` from now on,
	 * what belongs with it to the file `tables`. *ret: a description. */
	int (*start)(struct place *p, int to, int tables, json_t **ret,
		     struct cove_error *err);
	int (*poll)(struct place *p, struct cove_error *err); /* 1: all was written */
	void (*release)(struct place *p);
	/* Can what was described so go on here? Of the config only the directories count.
	 */
	int (*check)(const struct place_config *c, const json_t *machine,
		     struct cove_error *err);
	/* What was saved as an image for forks, and its description. The descriptors are
	 * the caller's to close, after a failure too. Of the config, see above. */
	int (*share)(const struct place_config *c, const struct place_state *from,
		     struct place_image *ret, json_t **ret_head, struct cove_error *err);
	/* Instead of setup(), for a guest that goes on: what RESUME has to say. */
	int (*resume)(const struct place *p, const struct place_config *c,
		      struct wire_out *o, struct cove_error *err);
};

struct backend {
	const char *name;
	/* Tries it for real; 0 or an error that says what is missing, with the fix as
	 * hint. checks (may be NULL): array to append {"name","backend","ok","detail",
	 * "fix"} to. Of the config only the directories count. */
	int (*probe)(const struct place_config *c, json_t *checks,
		     struct cove_error *err);
	/* What takes long, is shared by many starts, and is done before the first: says
	 * so by log lines. start() does it too, but perhaps where nobody is told. NULL:
	 * nothing. Of the config, spec, guest and directories count. */
	int (*prepare)(const struct place_config *c, struct cove_error *err);
	/* Blocks until the guest runs; on failure the message names the stage. */
	int (*start)(struct place *p, const struct place_config *c,
		     struct cove_error *err);
	/* Adds to the guest's SETUP, or its first RESUME, what a place of this kind
	 * needs. NULL: nothing. */
	int (*setup)(const struct place *p, const struct place_config *c,
		     struct wire_out *o, struct cove_error *err);
	/* Appends items {"item","required","actual","ok"}; returns how many fall short.
	 */
	int (*attest)(struct place *p, const struct place_config *c, json_t *items,
		      struct cove_error *err);
	/* Changes limits while it runs. */
	int (*set_limits)(struct place *p, const struct spec *s, bool degraded,
			  struct cove_error *err);
	/* Holds everything inside still, or lets it go on; kill and release do the latter
	 * by themselves. 1: it is about to: call it again. NULL: cannot. */
	int (*freeze)(struct place *p, bool on, struct cove_error *err);
	/* Why it is in trouble that nobody asked for: a message of one line, perhaps a
	 * hint; printable, and bounded, whoever it comes from. Takes a second at most.
	 * NULL: there is nothing to tell. */
	void (*explain)(struct place *p, enum place_trouble t, struct cove_error *why);
	const struct place_saver *saver; /* NULL: memory cannot be saved */
	void (*kill)(struct place *p);
	/* Collects what is left (process, cgroup) once the guest is gone or killed. */
	void (*release)(struct place *p);
};

extern const struct backend backend_process;
extern const struct backend backend_vm;

const struct backend *const *backend_list(void); /* strongest first, NULL-terminated */

/* The backend for c->spec: what was asked for is met or refused, never weakened. */
int backend_pick(const struct backend **ret, const struct place_config *c,
		 struct cove_error *err);
/* Would `auto` take it: everything is there, and it is not emulated? */
bool backend_vm_is_best(const struct place_config *c);

#endif
