/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cove.h - the public interface of libcove: sandboxes for AI agents and the code they
 *write.
 *
 * This is the only installed header, and its comments are the reference manual.
 *
 * In five lines:
 *
 *	struct cove_spec *spec;  cove_spec_new(&spec, &err);
 *	cove_spec_set(spec, "mounts", ".:overlay", &err);
 *	struct cove *box;        cove_start(&box, NULL, spec, NULL, &err);
 *	struct cove_proc *p;     cove_exec(box, &(struct cove_exec_options){...}, &p,
 *&err); cove_wait(p, -1, &status, &err);  cove_proc_free(p);  cove_free(box);
 *
 * Rules that hold for every call
 *  1. 0 or more is success, a negative COVE_E* is failure; then err (if not NULL) holds
 *     the code, the errno if there was one, one line of text and perhaps a hint. Outputs
 *     (ret_*) are untouched on failure.
 *  2. Strings passed in are borrowed for the call. Strings handed out as `char **ret` are
 *     the caller's, to be released with cove_string_free().
 *  3. A handle belongs to one thread at a time; different handles are independent.
 *  4. The library never exits, prints, changes signal handlers, the working directory,
 *     the umask or the environment, and reaps only processes it started.
 *  5. Option structs start with `size`: set it to sizeof the struct as you compiled it.
 *     Zero in any other field means the default. Fields are only ever appended; a set
 *     byte that the library does not know is refused.
 *  6. What was asked for is met or refused, never weakened in silence.
 */
#ifndef COVE_H
#define COVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define COVE_API __attribute__((visibility("default")))
#else
#define COVE_API
#endif

#define COVE_ABI 1

/* ---- errors --------------------------------------------------------------------- */

enum cove_code {
	COVE_OK = 0,
	COVE_EINVAL = -1, /* an argument, a flag or a spec is wrong; nothing changed */
	COVE_ENOMEM = -2, /* out of memory */
	COVE_EIO = -3,    /* a system call failed; sys says how */
	COVE_EUNSUPPORTED = -4, /* this host or build cannot do it */
	COVE_EDENIED = -5,      /* permission or policy says no */
	COVE_EEXIST = -6,       /* a sandbox of that name exists */
	COVE_ENOENT = -7,       /* no sandbox of that name */
	COVE_ESTATE = -8,     /* not in this state (not running, already running, ...) */
	COVE_EPROTO = -9,     /* the other side broke the protocol */
	COVE_ETIMEDOUT = -10, /* time ran out */
	COVE_EDAMAGED = -11,  /* a state or spec file of the sandbox is damaged */
	COVE_EGONE = -12,     /* the sandbox or its keeper went away */
	COVE_EFINDINGS = -13, /* the gate or a scan found something; nothing changed */
	COVE_ECONFLICT = -14  /* the host changed the same files; nothing changed */
};

struct cove_error {
	int32_t code; /* enum cove_code */
	int32_t sys;  /* errno, or 0 */
	char msg[600];
	char hint[300]; /* what to do about it; may be empty */
};

COVE_API void cove_string_free(char *s); /* NULL is a no-op */

/* ---- version and host ----------------------------------------------------------- */

COVE_API const char *cove_version(void);

/* {"version":..,"abi":..,"backends":[..],"features":{..}}: what is compiled in. */
COVE_API int cove_version_json(char **ret, struct cove_error *err);

/* Probes the host by trying: {"backends":{"process":{"usable":true,...}},"checks":[
 * {"name":..,"ok":bool,"detail":..,"fix":..}]}. ret_usable: 1 if any backend works. */
COVE_API int cove_doctor_json(char **ret, int *ret_usable, struct cove_error *err);

/* ---- spec: what a sandbox is ---------------------------------------------------- */

struct cove_spec; /* opaque; the schema is share/cove/spec.schema.json, cove-spec(5) */

COVE_API int cove_spec_new(struct cove_spec **ret, struct cove_error *err); /* defaults */
COVE_API int cove_spec_copy(struct cove_spec **ret, const struct cove_spec *s,
			    struct cove_error *err);
COVE_API void cove_spec_free(struct cove_spec *s);

/* Reads YAML or JSON over what is there already. name is used in messages
 * (file:line). On COVE_EINVAL the spec is unchanged and cove_spec_problems() lists every
 * problem of the text, one a line. */
COVE_API int cove_spec_parse(struct cove_spec *s, const char *text, size_t len,
			     const char *name, struct cove_error *err);
COVE_API int cove_spec_load(struct cove_spec *s, const char *path,
			    struct cove_error *err);
COVE_API const char *cove_spec_problems(const struct cove_spec *s); /* "" if none */

/* Sets one key by its dotted name: ("resources.memoryMiB", "2GiB"), ("network.mode",
 * "none"), ("exec.env", "K=V"), ("mounts", "SRC[:DST]:MODE"). List and map keys append;
 * NULL as value empties them. This is what the flags of `cove run` do. */
COVE_API int cove_spec_set(struct cove_spec *s, const char *key, const char *value,
			   struct cove_error *err);

/* The whole spec as JSON, defaults filled in. */
COVE_API int cove_spec_json(const struct cove_spec *s, char **ret,
			    struct cove_error *err);

/* Configuration: ~/.config/cove/config.yaml, then DIR/cove.yaml if its exact content was
 * trusted with cove_config_trust(). Fills the spec with `defaults` and, when profile is
 * not NULL, with that profile. *ret_notice (may be NULL) is a line to show the user, or
 * NULL when there is nothing to say (an untrusted project file, for example). */
COVE_API int cove_config_apply(struct cove_spec *s, const char *dir, const char *profile,
			       char **ret_notice, struct cove_error *err);
COVE_API int cove_config_trust(const char *path, int trust, struct cove_error *err);
/* Checks a config or spec file; *ret_problems lists all problems, "" if there are none.
 */
COVE_API int cove_config_check(const char *path, char **ret_problems,
			       struct cove_error *err);

/* ---- sandboxes ------------------------------------------------------------------ */

struct cove;      /* one sandbox: run by this process, or a connection to its keeper */
struct cove_proc; /* one process in it */

enum cove_start_flags {
	COVE_START_DEGRADED =
		1 << 0, /* a limit that cannot be set is reported, not refused */
	COVE_START_ONESHOT = 1 << 1 /* the sandbox ends when its first process does */
};

struct cove_secret_value {
	const char *name;
	const void *value;
	size_t size;
};

struct cove_start_options {
	uint32_t size;
	uint32_t flags; /* enum cove_start_flags */
	/* Called while something takes long (NULL: not called). Percent -1: unknown. */
	void (*progress)(void *arg, const char *what, int percent);
	void *arg;
	/* What the commands of `provision:` print while they run (NULL: dropped). */
	void (*output)(void *arg, int fd, const void *data, size_t n);
	/* Values of secrets that the caller has in hand; they come before the environment
	 * and the store. Used only if this call starts the sandbox. */
	const struct cove_secret_value *secrets;
	size_t n_secrets;
};

/*
 * Starts a sandbox and returns when its guest answers.
 *
 * name NULL: this process is the keeper. The sandbox ends with cove_free(), or with this
 * process, whatever happens to it. Blocks for about a millisecond. If overlay mounts hold
 * changes at the end they are kept as a stopped sandbox, see cove_name().
 *
 * name given: the sandbox of that name is created from spec if it does not exist (spec
 * NULL: it must exist), and its keeper process is started if it is not running; the
 * handle is a connection to it, and cove_free() leaves it running.
 */
COVE_API int cove_start(struct cove **ret, const char *name, const struct cove_spec *spec,
			const struct cove_start_options *o, struct cove_error *err);

COVE_API int cove_create(const char *name, const struct cove_spec *spec,
			 struct cove_error *err);
/* The same, with progress and output of `provision:`; o may be NULL. */
COVE_API int cove_create_with(const char *name, const struct cove_spec *spec,
			      const struct cove_start_options *o, struct cove_error *err);
COVE_API int cove_connect(struct cove **ret, const char *name, struct cove_error *err);
COVE_API void cove_free(struct cove *s); /* NULL is a no-op */

/* The sandbox's name; for a one-shot, the name under which left-over changes will be
 * kept. */
COVE_API const char *cove_name(const struct cove *s);

/* Ends a one-shot (name NULL) sandbox in good order and tells how many changed paths are
 * kept on disk (0: nothing is left behind). cove_free() is still needed. */
COVE_API int cove_finish(struct cove *s, uint64_t *ret_changes, struct cove_error *err);

/* The same for a program whose very next step is _exit(): if nothing changed, the end of
 * the guest and the clean-up are left to a short-lived process that shares this one's
 * memory (so after a return of 1 only _exit() may follow). 0: done in full, as
 * cove_finish() does. */
COVE_API int cove_leave(struct cove *s, uint64_t *ret_changes, struct cove_error *err);

/* Orderly stop: SIGTERM inside, then after grace_ms SIGKILL. Returns when it is gone. */
COVE_API int cove_stop(const char *name, int grace_ms, struct cove_error *err);
COVE_API int cove_kill(const char *name, struct cove_error *err);

/* Holds everything inside still until cove_resume(), or a stop. New commands are refused
 * meanwhile (COVE_ESTATE), published ports accept and wait. What is so already stays so.
 */
COVE_API int cove_pause(const char *name, struct cove_error *err);
COVE_API int cove_resume(const char *name, struct cove_error *err);

enum cove_remove_flags {
	COVE_REMOVE_FORCE =
		1 << 0 /* stop it first; remove even if its files are damaged */
};
/* What is in its quarantine is kept; cove_notices() says where. */
COVE_API int cove_remove(const char *name, uint32_t flags, struct cove_error *err);
/* Back to what it was when created: upper layers, home and logs are emptied. */
COVE_API int cove_reset(const char *name, struct cove_error *err);

enum cove_update_flags {
	COVE_UPDATE_FULL =
		1 << 0 /* spec replaces all keys (edit), not only the set ones */
};
/* Changes the spec of an existing sandbox. Running: limits and the network's rules change
 * live; for anything else fails with COVE_ESTATE ("needs a restart") and changes nothing.
 */
COVE_API int cove_update(const char *name, const struct cove_spec *changes,
			 uint32_t flags, struct cove_error *err);

/* [{"name":..,"state":"running|stopped|damaged",...}], one element a sandbox, by name. */
COVE_API int cove_list_json(char **ret, struct cove_error *err);
/* Spec, state, paths, limits in force, processes of one sandbox. */
COVE_API int cove_inspect_json(const char *name, char **ret, struct cove_error *err);
COVE_API int cove_stats_json(const char *name, char **ret, struct cove_error *err);
COVE_API int cove_ps_json(const char *name, char **ret, struct cove_error *err);

/* What is enforced on the running sandbox, read from the kernel and by trying, item by
 * item. COVE_EDENIED if anything falls short of the spec (then *ret is set all the same).
 */
COVE_API int cove_attest_json(const char *name, char **ret, struct cove_error *err);
/* The same for a handle (one-shot sandboxes have no registered name). */
COVE_API int cove_attest_handle_json(struct cove *s, char **ret, struct cove_error *err);

/* The log of the main session: an open descriptor, positioned at the start. */
COVE_API int cove_logs_open(const char *name, int *ret_fd, struct cove_error *err);

/* ---- secrets -------------------------------------------------------------------- */

/* The store of secrets: encrypted, in the user's own directory. A sandbox whose spec
 * names one sees a placeholder; the value is put in on the way to its hosts. Values are
 * kept in locked memory and wiped; they are in no log, error or JSON. */
struct cove_secret_options {
	uint32_t size;
	uint32_t flags;    /* 0 */
	const char *name;  /* of a variable: [A-Za-z_][A-Za-z0-9_]* */
	const char *hosts; /* "a,b": used for a spec that names none; may be NULL */
	/* Exactly one of these: where the value comes from. A last line break of env,
	 * file and command is not part of it. */
	const void *value;
	size_t value_size;
	const char *env;
	const char *file;
	const char *const *command; /* NULL-terminated; its output */
};
COVE_API int cove_secret_set(const struct cove_secret_options *o, struct cove_error *err);
/* [{"name":..,"hosts":[..],"changed":SECONDS,"key":"file|keyring"}], by name; "problem"
 * says why one cannot be used. No values. */
COVE_API int cove_secret_list_json(char **ret, struct cove_error *err);
COVE_API int cove_secret_remove(const char *name, struct cove_error *err);

/* ---- processes ------------------------------------------------------------------ */

enum cove_exec_flags {
	COVE_EXEC_PTY = 1 << 0,   /* a terminal inside; output all arrives as stdout */
	COVE_EXEC_STDIO = 1 << 1, /* copy from and to the three descriptors below */
	COVE_EXEC_MAIN =
		1 << 2, /* the main session: outlives this connection, cove_attach() */
	COVE_EXEC_STDIN =
		1 << 3, /* without STDIO: keep stdin open for cove_proc_write() */
	COVE_EXEC_OFFLINE = 1 << 4 /* its connections are refused, whatever the policy */
};

struct cove_exec_options {
	uint32_t size;
	uint32_t flags; /* enum cove_exec_flags */
	const char *const
		*argv;          /* NULL-terminated; argv[0] is looked up in PATH inside */
	const char *const *env; /* "K=V", NULL-terminated, over the spec's environment */
	const char *cwd;        /* NULL: the spec's workDir */
	const char *term;       /* value of TERM; its terminfo is supplied if missing */
	int32_t in, out, err;   /* with COVE_EXEC_STDIO; borrowed until the proc is freed;
				   -1: /dev/null */
	uint16_t rows, cols;    /* with COVE_EXEC_PTY */
	int64_t timeout_ms;     /* 0: the spec's; then SIGTERM, 2 s later SIGKILL */
	/* Without COVE_EXEC_STDIO: output arrives here, from cove_dispatch() or
	 * cove_wait(). fd is 1 or 2. NULL: it is dropped. */
	void (*output)(void *arg, int fd, const void *data, size_t n);
	void *arg;
	/* On whose behalf, and with which tool: what network rules with a scope ask for.
	 * Names of at most 63 bytes; NULL: not said. */
	const char *agent, *tool;
};

struct cove_status {
	uint32_t size;
	int32_t exited;    /* 1: exit code valid; 0: killed by a signal */
	int32_t code;      /* exit code */
	int32_t signal;    /* signal number */
	int32_t timed_out; /* 1: ended because timeout_ms ran out */
	int32_t shell;     /* what a shell would report: code, 128+signal, 124 timed out,
			      126 not executable, 127 not found */
};

COVE_API int cove_exec(struct cove *s, const struct cove_exec_options *o,
		       struct cove_proc **ret, struct cove_error *err);
/* Re-joins the main session: recent output first, then live. Uses flags, in/out/err,
 * output, rows and cols of o. */
COVE_API int cove_attach(struct cove *s, const struct cove_exec_options *o,
			 struct cove_proc **ret, struct cove_error *err);

/* Runs the event loop until the process has ended and its output is delivered, or
 * timeout_ms passed (COVE_ETIMEDOUT; -1: for ever). Command not found is not an error
 * here: ret->shell is 127. */
COVE_API int cove_wait(struct cove_proc *p, int timeout_ms, struct cove_status *ret,
		       struct cove_error *err);
/* 1 and *ret if it has ended, 0 if not yet; never blocks, never dispatches. */
COVE_API int cove_poll(struct cove_proc *p, struct cove_status *ret,
		       struct cove_error *err);

COVE_API int64_t
cove_proc_id(const struct cove_proc *p); /* pid inside; 0 not known yet */
/* To its process group. */
COVE_API int cove_proc_signal(struct cove_proc *p, int signo, struct cove_error *err);
COVE_API int cove_proc_resize(struct cove_proc *p, uint16_t rows, uint16_t cols,
			      struct cove_error *err);
/* Takes up to n bytes for stdin; returns how many (0: try again after cove_dispatch()).
 */
COVE_API int64_t cove_proc_write(struct cove_proc *p, const void *data, size_t n,
				 struct cove_error *err);
COVE_API int cove_proc_close_stdin(struct cove_proc *p, struct cove_error *err);
/* Forgets the process; if it still runs it gets SIGHUP, the main session lives on. */
COVE_API void cove_proc_free(struct cove_proc *p);

/* ---- the caller's own event loop ------------------------------------------------ */

/* Readable when cove_dispatch() has something to do. Valid until cove_free(). */
COVE_API int cove_fd(struct cove *s);
/* Does what is ready, without blocking. COVE_EGONE when the sandbox has ended. */
COVE_API int cove_dispatch(struct cove *s, struct cove_error *err);

/* ---- files ---------------------------------------------------------------------- */

enum cove_copy_flags {
	COVE_COPY_IN = 1 << 0, /* host to sandbox; otherwise sandbox to host */
	COVE_COPY_RECURSIVE = 1 << 1
};

/* Copies a file, or with COVE_COPY_RECURSIVE a directory. Symlinks are copied as links;
 * devices, sockets and fifos are refused. Out of the sandbox nothing is written outside
 * dst, whatever the sandbox answers. Modes are kept, setuid and setgid are not. */
COVE_API int cove_copy(struct cove *s, const char *src, const char *dst, uint32_t flags,
		       void (*progress)(void *arg, const char *path, uint64_t bytes),
		       void *arg, struct cove_error *err);

/* ---- workspace: what the agent changed ------------------------------------------ */

enum cove_change_kind {
	COVE_ADDED = 1,
	COVE_EDITED, /* the content of a file, or the target of a symlink */
	COVE_DELETED,
	COVE_RENAMED, /* proved: same content, or the kernel's record of its origin */
	COVE_RETYPED, /* a file became a directory, a symlink a file ... */
	COVE_ATTRS    /* mode, owner or extended attributes only */
};

enum cove_change_what {
	COVE_WHAT_CONTENT = 1 << 0,
	COVE_WHAT_MODE = 1 << 1,
	COVE_WHAT_OWNER = 1 << 2,
	COVE_WHAT_TARGET = 1 << 3,
	COVE_WHAT_XATTR = 1 << 4,
	COVE_WHAT_TYPE = 1 << 5,
	COVE_WHAT_BINARY = 1 << 6,    /* no text diff */
	COVE_WHAT_UNREADABLE = 1 << 7 /* cannot be looked into; the gate refuses it */
};

struct cove_change {
	uint32_t size;
	uint32_t kind;               /* enum cove_change_kind */
	uint32_t what;               /* bits of enum cove_change_what */
	const char *source;          /* the mount: its directory on the host */
	const char *path;            /* below it; any bytes but '\0' */
	const char *from;            /* COVE_RENAMED: the old path; else NULL */
	uint32_t old_mode, new_mode; /* st_mode; 0: does not exist */
	uint64_t old_size, new_size;
	const char *old_target, *new_target; /* of symlinks, or NULL */
	uint32_t added, removed; /* lines, with COVE_DIFF_STAT or COVE_DIFF_TEXT */
	const char *text;        /* unified hunks, with COVE_DIFF_TEXT; or NULL */
	size_t text_len;
	const char *why; /* with COVE_WHAT_UNREADABLE: the reason; else NULL */
};

enum cove_diff_flags {
	COVE_DIFF_STAT = 1 << 0,      /* count lines */
	COVE_DIFF_TEXT = 1 << 1,      /* unified text; of a COVE_RETYPED, that which went
				       * and then that which came */
	COVE_DIFF_NO_CONTEXT = 1 << 2 /* a context of 0 lines, not of 3 */
};

struct cove_diff_options {
	uint32_t size;
	uint32_t flags;
	/* NULL-terminated; a path below a mount, or on the host, or a glob. NULL: all. */
	const char *const *paths;
	uint32_t context; /* lines around a change; 0: 3 */
	/* Called for each change, sorted by mount and path. Not 0: stop. */
	int (*change)(void *arg, const struct cove_change *c);
	void *arg;
};

/* What differs from the host in the overlay mounts of a sandbox, running or stopped.
 * Returns the number of changes. The cost follows the changes, not the tree. */
COVE_API int64_t cove_diff(const char *name, const struct cove_diff_options *o,
			   struct cove_error *err);

enum cove_finding_flags {
	COVE_FINDING_HARD = 1 << 0,    /* cannot be accepted */
	COVE_FINDING_ACCEPTED = 1 << 1 /* was accepted by its id, and stops nothing */
};

/* What the gate, or a scan, holds against a file. */
struct cove_finding {
	uint32_t size;
	uint32_t flags;
	const char *id;      /* names this one finding, to accept it */
	const char *rule;    /* "aws-access-key", "git-hook", "symlink-leaves" ... */
	const char *path;    /* of the file */
	const char *inner;   /* path inside an archive, or "" */
	uint64_t line;       /* 0: the file as a whole */
	const char *why;     /* one line */
	const char *excerpt; /* redacted; may be "" */
};

struct cove_conflict {
	uint32_t size;
	const char *source, *path;
	const char *why;
};

enum cove_apply_flags {
	COVE_APPLY_DRY_RUN = 1 << 0,  /* everything but the change of the host */
	COVE_APPLY_OVERWRITE = 1 << 1 /* where both changed: the sandbox's version */
};

enum cove_choice {
	COVE_CHOOSE_NO = 0,
	COVE_CHOOSE_YES = 1,
	COVE_CHOOSE_ALL_FILE = 2, /* the rest of this file too */
	COVE_CHOOSE_NONE_FILE = 3,
	COVE_CHOOSE_ALL = 4,  /* everything that is left */
	COVE_CHOOSE_STOP = 5, /* nothing that is left */
	COVE_CHOOSE_ABORT = 6 /* nothing at all */
};

struct cove_apply_options {
	uint32_t size;
	uint32_t flags;
	const char *const *paths;  /* as in cove_diff_options */
	const char *const *accept; /* ids of findings; NULL-terminated */
	/* Asked for every change (hunk -1, text NULL or the whole diff) and, when that
	 * was answered with COVE_CHOOSE_YES and there are several hunks, for every hunk.
	 * NULL: all. */
	int (*choose)(void *arg, const struct cove_change *c, int32_t hunk,
		      const char *text, size_t text_len);
	void (*change)(void *arg, const struct cove_change *c); /* each that lands */
	void (*finding)(void *arg, const struct cove_finding *f);
	void (*conflict)(void *arg, const struct cove_conflict *c);
	void (*progress)(void *arg, const char *what, uint64_t done, uint64_t all);
	void *arg;
};

struct cove_apply_result {
	uint32_t size;
	uint32_t findings, conflicts;
	uint32_t pad;
	uint64_t applied; /* paths changed on the host */
	uint64_t merged;  /* of these, merged with changes of the host */
	uint64_t left;    /* changes that stay in the sandbox */
	uint64_t bytes;
};

/* Lands changes on the host: gate, conflict check, then all of them or none. Cut off at
 * any point, the next command completes or takes back. COVE_EFINDINGS, COVE_ECONFLICT:
 * nothing was touched. r may be NULL. */
COVE_API int cove_apply(const char *name, const struct cove_apply_options *o,
			struct cove_apply_result *r, struct cove_error *err);

/* Takes the last apply back, host and sandbox. COVE_ECONFLICT (and conflict() for each)
 * if the host changed those files since. Uses flags DRY_RUN, change, conflict, arg. */
COVE_API int cove_undo(const char *name, const struct cove_apply_options *o,
		       struct cove_apply_result *r, struct cove_error *err);

/* Drops changes for good; the sandbox must be stopped. paths NULL: all. Returns how many.
 */
COVE_API int64_t cove_discard(const char *name, const char *const *paths,
			      struct cove_error *err);

struct cove_scan_options {
	uint32_t size;
	uint32_t flags;         /* 0 */
	const char *rules_file; /* a gitleaks.toml; NULL: the built-in rules */
	void (*finding)(void *arg, const struct cove_finding *f);
	void *arg;
	uint64_t *ret_files, *ret_bytes; /* may be NULL */
};

/* Looks for secrets in files and directories of the host. COVE_EFINDINGS if any. */
COVE_API int cove_scan(const char *const *paths, const struct cove_scan_options *o,
		       struct cove_error *err);

/* ---- snapshots, clones, archives, volumes --------------------------------------- */

/* A consistent cut of workspace, home, image layer and volumes; a running sandbox is
 * frozen while it is taken. description may be NULL. */
COVE_API int cove_snapshot(const char *name, const char *tag, const char *description,
			   struct cove_error *err);
struct cove_snapshot_options {
	uint32_t size; /* sizeof(struct cove_snapshot_options) */
	uint32_t flags;
#define COVE_SNAPSHOT_MEMORY (1u << 0) /* running processes, too: backend vm only */
	const char *description;       /* may be NULL */
};
/* With memory the sandbox must run; o may be NULL. The memory is encrypted with a key of
 * its own, which only this user can open. */
COVE_API int cove_snapshot_with(const char *name, const char *tag,
				const struct cove_snapshot_options *o,
				struct cove_error *err);
/* [{"tag":..,"description":..,"parent":..,"time":..,"bytes":..,"files":..,"memory":..}],
 * oldest first; "memory": bytes, if it was kept, too. */
COVE_API int cove_snapshots_json(const char *name, char **ret, struct cove_error *err);
/* Back to a snapshot, in one step; the sandbox must be stopped. One with memory goes on
 * where it was: processes run, with their open files; connections are reset, and clients
 * of commands are gone, but for the main session, which can be attached to. Everything
 * that is wrong with a saved memory is found before anything is changed. */
COVE_API int cove_restore(const char *name, const char *tag, struct cove_error *err);
#define COVE_RESTORE_FILES_ONLY (1u << 0)
COVE_API int cove_restore_with(const char *name, const char *tag, uint32_t flags,
			       struct cove_error *err);
/* Removes a snapshot with memory; the key of the memory is destroyed first, so that what
 * is left of it on the disk, or in a copy, is noise. */
COVE_API int cove_snapshot_shred(const char *name, const char *tag,
				 struct cove_error *err);
/* n new sandboxes that go on from the memory of one snapshot, or of the running sandbox
 * as it is now (tag NULL), each with a name, a random state and files of its own. All of
 * them, or none. */
COVE_API int cove_fork(const char *name, const char *tag, const char *const *new_names,
		       size_t n, struct cove_error *err);
COVE_API int cove_snapshot_remove(const char *name, const char *tag,
				  struct cove_error *err);

/* A new sandbox with the spec and files of another, or of its snapshot (tag not NULL).
 * changes: what is different in its spec, or NULL. */
COVE_API int cove_clone(const char *name, const char *tag, const char *new_name,
			const struct cove_spec *changes, struct cove_error *err);

/* One archive with spec, files and snapshots; a running sandbox is frozen while its files
 * are copied. Volumes stay where they are. */
COVE_API int cove_export(const char *name, int fd, struct cove_error *err);
/* A new sandbox from such an archive, which may be anybody's: it is read by a confined
 * process. name NULL: as it was called; changes: what is different in its spec, or NULL;
 * ret_name (may be NULL) gets the name. */
COVE_API int cove_import(const char *name, int fd, const struct cove_spec *changes,
			 char **ret_name, struct cove_error *err);

/* ---- published ports ------------------------------------------------------------ */

/* Publishes a port or a unix socket of the sandbox on the host: "HOST:GUEST" as in
 * `ports` of cove-spec(5), for example "8080:3000", "0:3000" (any free port),
 * "0.0.0.0:80:3000",
 * "/tmp/db.sock:/run/db.sock". Running: it listens at the return. It stays in the spec.
 * ret_json (may be NULL): as an element of cove_ports_json(). A port that is taken is
 * COVE_EEXIST, and the message names the holder. */
COVE_API int cove_publish(const char *name, const char *port, char **ret_json,
			  struct cove_error *err);
/* Takes it back and closes its connections. port: either end, or both, as it was given or
 * as cove_ports_json() shows it. */
COVE_API int cove_unpublish(const char *name, const char *port, struct cove_error *err);
/* [{"host":"127.0.0.1:8080"|"/path","guest":3000|"/path","listening":bool,
 *   "open":connections now,"total":since the start}] */
COVE_API int cove_ports_json(const char *name, char **ret, struct cove_error *err);
COVE_API int cove_ports_handle_json(struct cove *s, char **ret, struct cove_error *err);

/* [{"name":..,"bytes":..,"usedBy":[..]}] */
COVE_API int cove_volumes_json(char **ret, struct cove_error *err);
COVE_API int cove_volume_remove(const char *volume, struct cove_error *err);

/* ---- kernels of virtual machines ------------------------------------------------ */

struct cove_kernel_options {
	uint32_t size;
	uint32_t flags; /* 0 */
	/* cove_kernel_install(): a package file at hand; NULL: it is fetched. */
	const char *deb;
	/* Called while it works (NULL: not called); all 0: it cannot be told. */
	void (*progress)(void *arg, const char *what, uint64_t done, uint64_t all);
	void *arg;
};

/* Unpacks the distribution's kernel for virtual machines, with the modules that a guest
 * needs. Nothing is installed on the host, and nobody has to be root. If it is there
 * already, it is checked. ret_name (may be NULL) gets its name; o may be NULL. */
COVE_API int cove_kernel_install(const struct cove_kernel_options *o, char **ret_name,
				 struct cove_error *err);
/* Compiles one that has all that a guest needs built in, and nothing else, from the
 * distribution's source. Takes about eight minutes on two processors, and 4 GiB of disk
 * meanwhile. */
COVE_API int cove_kernel_build(const struct cove_kernel_options *o, char **ret_name,
			       struct cove_error *err);
/* A kernel of one's own: an image (bzImage or ELF), and the directory with its modules,
 * or NULL if all that a guest needs is built in. */
COVE_API int cove_kernel_add(const char *kernel, const char *image, const char *modules,
			     struct cove_error *err);
/* [{"name":..,"version":..,"bytes":..,"modules":..,"default":..,"source":..,
 *   "installedAt":seconds since 1970}]; a damaged one has "problem". */
COVE_API int cove_kernels_json(char **ret, struct cove_error *err);
/* The one that is used from now on. */
COVE_API int cove_kernel_default(const char *kernel, struct cove_error *err);
COVE_API int cove_kernel_remove(const char *kernel, struct cove_error *err);

/* ---- images --------------------------------------------------------------------- */

/* What is kept so that later starts need not make it: images that were unpacked
 * ("kind":"tar") and machines that were booted ("template").
 * [{"key":..,"kind":..,"bytes":..,"madeAt":seconds since 1970}]; a tar image also has
 * "source", "digest", "entries", "devices" (left out) and "usedBy":[sandboxes], a
 * template "kernel", "cpus", "memoryMiB", "accelerator" and "qemu". */
COVE_API int cove_images_json(char **ret, struct cove_error *err);
/* One of them; the key may be cut short if it is unique. COVE_ESTATE: a sandbox has it.
 */
COVE_API int cove_image_remove(const char *key, struct cove_error *err);
/* Makes what the first start of such a sandbox would make: says so by log lines. */
COVE_API int cove_image_prepare(const struct cove_spec *spec, struct cove_error *err);

/* What happened to a sandbox that its user should know and was not told yet, a line each:
 * files that appeared in a rw mount where the host would run them, and where they were
 * taken; what a recovery after a crash left as the host had it; of a removed sandbox,
 * where its quarantine is. NULL in *ret if there is nothing new. */
COVE_API int cove_notices(const char *name, char **ret, struct cove_error *err);

/* ---- network -------------------------------------------------------------------- */

/* What a change of the policy came to. */
struct cove_net_change {
	uint32_t size;
	uint32_t running;    /* 1: in force; 0: stored, in force at the next start */
	uint64_t generation; /* of the policy; 0: not running */
	uint64_t rules;
	uint64_t us;     /* until it was in force */
	uint64_t closed; /* connections that it ended */
	char id[64];     /* of the rule */
};

/* Puts a rule (JSON, an element of `rules:` in cove-spec(5)) over all that the sandbox
 * has; it stays until it is taken back, or for for_ms (0: for ever). Running: it is in
 * force at the return, and connections that it refuses have ended. ret may be NULL. */
COVE_API int cove_net_add(const char *name, const char *rule, int64_t for_ms,
			  struct cove_net_change *ret, struct cove_error *err);
COVE_API int cove_net_remove(const char *name, const char *id,
			     struct cove_net_change *ret, struct cove_error *err);
/* Reads the policy file of the spec again, or another one from now on (file not NULL). A
 * file that is not right changes nothing. */
COVE_API int cove_net_reload(const char *name, const char *file,
			     struct cove_net_change *ret, struct cove_error *err);

/* {"mode","generation","ask","file","rules":[{"id","source":"live|spec|file|secret",
 * ...}]}, in the order in which they decide. */
COVE_API int cove_net_rules_json(const char *name, char **ret, struct cove_error *err);
/* {"running","mode","generation","rules","file","lastChange","saveToEffectUs","problem",
 * "denied":[{"host","port","count","rule","reason"}]} */
COVE_API int cove_net_status_json(const char *name, char **ret, struct cove_error *err);

struct cove_net_query {
	uint32_t size;
	uint32_t port;             /* 0: 443 */
	const char *host;          /* a name or an address */
	const char *method, *path; /* of an HTTP request; NULL: the connection alone */
	const char *agent, *tool, *exec;
};
/* What would happen to it: {"verdict":"allow|inspect|ask|deny","rule","reason","steps":
 * [{"rule","matches","why"}]}. name NULL: by the spec alone. 1: it is let through, or
 * each of its requests is judged; 0: it is not, or somebody is asked. */
COVE_API int cove_net_check(const char *name, const struct cove_spec *spec,
			    const struct cove_net_query *q, char **ret_json,
			    struct cove_error *err);

/* Calls fn with each line of the log (JSON, without newline) from *cursor on (0: all that
 * is kept) and moves it. fn: not 0 stops. */
COVE_API int cove_net_log(const char *name, uint64_t *cursor,
			  int (*fn)(void *arg, const char *line, size_t n), void *arg,
			  struct cove_error *err);
/* What was used with network.mode learn, as {"network":{"mode":"allowlist","rules":..}}.
 */
COVE_API int cove_net_learned_json(const char *name, char **ret, struct cove_error *err);
/* [{"host","port","count","rule","reason","program"}] refused since then (ms since 1970),
 * most recent first. If the network has failed as a whole, the first element is
 * {"problem": TEXT}. */
COVE_API int cove_net_denied_json(struct cove *s, int64_t since_ms, char **ret,
				  struct cove_error *err);

/* With network.ask, what no rule allows waits for an answer: fn is called from
 * cove_dispatch() or cove_wait() with {"id","host","port","program","exec",..}, and
 * cove_net_answer() is called then or later; after a minute the answer is no. Of several
 * that were asked the first counts. remember: as a rule, see cove_net_add(). fn NULL:
 * nobody answers any more. */
COVE_API int cove_net_on_ask(struct cove *s,
			     void (*fn)(void *arg, uint64_t id, const char *question),
			     void *arg, struct cove_error *err);
COVE_API int cove_net_answer(struct cove *s, uint64_t id, int allow, int remember,
			     struct cove_error *err);

/* ---- audit ---------------------------------------------------------------------- */

/* Calls fn (may be NULL) with each record, one line of JSON without newline, oldest
 * first; not 0: stop. from_seq: the first wanted (0: all). Returns the sequence number
 * after the last. The name of a removed sandbox means the log that was kept of it. */
COVE_API int64_t cove_audit(const char *name, uint64_t from_seq,
			    int (*fn)(void *arg, const char *line, size_t n), void *arg,
			    struct cove_error *err);
/* Checks the chain. COVE_EDAMAGED with the place in the message if a record was edited,
 * removed, moved or cut off. ret_records may be NULL. */
COVE_API int cove_audit_verify(const char *name, uint64_t *ret_records,
			       struct cove_error *err);

/* ---- logging -------------------------------------------------------------------- */

/* One callback for the whole process; level 0 error .. 3 debug. NULL (default): silent.
 */
COVE_API void cove_set_log(void (*fn)(void *arg, int level, const char *line), void *arg);

#ifdef __cplusplus
}
#endif
#endif
