/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec - what a sandbox is, parsed and checked. Pure: no system call, no log.
 *
 * struct spec always holds a complete, valid description with every default filled in;
 * `set` remembers which resources were asked for by the user: those must be met or
 * refused, while a default that the host cannot enforce is only reported.
 */
#ifndef COVE_SPEC_SPEC_H
#define COVE_SPEC_SPEC_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPEC_TEXT_MAX (16u << 20) /* a spec or config file may be this large */
#define SPEC_LIST_MAX 256         /* elements of a list */
#define SPEC_LONG_MAX 65536       /* of network.rules and network.allowedHosts */
#define SPEC_STR_MAX 4096         /* bytes of any string */
#define SPEC_NAME_MAX 63

enum spec_backend { BACKEND_AUTO, BACKEND_PROCESS, BACKEND_VM, BACKEND_REMOTE };
enum spec_image {
	IMAGE_HOST,
	IMAGE_ROOTFS,
	IMAGE_OCI,
	IMAGE_OCI_ARCHIVE,
	IMAGE_DOCKER_ARCHIVE,
	IMAGE_TAR,
	IMAGE_RAW,
	IMAGE_QCOW2
};
enum spec_net { NET_NONE, NET_ALLOWLIST, NET_OPEN, NET_LEARN };
enum spec_storage { STORAGE_EPHEMERAL, STORAGE_PERSISTENT };
enum spec_mount_mode { MOUNT_OVERLAY, MOUNT_RO, MOUNT_RW, MOUNT_COPY, MOUNT_VOLUME };

enum spec_limit { /* bits of resources.set */
		  LIMIT_MEMORY = 1 << 0,
		  LIMIT_CPUS = 1 << 1,
		  LIMIT_DISK = 1 << 2,
		  LIMIT_TTL = 1 << 3,
		  LIMIT_IDLE = 1 << 4,
		  LIMIT_SWAP = 1 << 5,
		  LIMIT_PIDS = 1 << 6,
};

struct spec_strings {
	char **v; /* n strings, each owned */
	size_t n;
};

struct spec_mount {
	char *source; /* as written; "." and relative paths are resolved by the caller */
	char *target; /* NULL: same as source */
	enum spec_mount_mode mode;
	bool shared; /* volume: others that say so too may mount it at the same time */
	int layer;   /* see spec_layer_number(); -1: its position */
	struct spec_strings unprotect; /* rw: guarded paths that may be changed */
};

struct spec {
	char *name; /* NULL: not given */
	enum spec_backend backend;
	struct {
		char *engine;            /* vm: auto | kvm | qemu; NULL */
		char *provider, *target; /* remote */
	} backend_options;
	struct {
		enum spec_image kind;
		char *value; /* path or reference; NULL for host */
	} image;
	struct {
		enum spec_net mode;
		struct spec_strings allowed_hosts, allowed_ports;
		json_t *rules;                 /* validated array, or NULL */
		struct spec_strings addresses; /* see struct policy_source */
		char *file;                /* a policy file that is watched; NULL: none */
		bool ask;                  /* what the mode would refuse is asked for */
		struct spec_strings trust; /* files of certificates to trust as well */
	} network;
	enum spec_storage storage;
	struct {
		uint32_t set; /* LIMIT_* asked for by the user */
		uint64_t memory_bytes, swap_bytes,
			disk_bytes;       /* memory, disk 0: no limit */
		uint32_t cpus_milli;      /* 0: no limit */
		uint32_t pids;            /* 0: no limit */
		uint64_t ttl_ms, idle_ms; /* 0: none */
	} resources;
	struct {
		/* Either may point to static memory: change them with spec_set() only. */
		char *user;    /* "agent", "root", or a name or number of the image */
		char *workdir; /* NULL or ".": the directory cove was called in */
		struct spec_strings env; /* K=V */
		uint64_t timeout_ms;
	} exec;
	struct spec_mount *mounts;
	size_t n_mounts;
	struct spec_strings mask; /* private directories; resolved: absolute, clean */
	json_t *secrets, *ports, *gate, *services, *provision; /* validated, or NULL */
	uint64_t given; /* keys that were named, even with their default; for spec_merge()
			 */
};

void spec_init(struct spec *s); /* all defaults; may not fail later for want of them */
void spec_clear(struct spec *s);
/* dst is written, not read: it need not be initialised, and what it held is not released.
 */
int spec_copy(struct spec *dst, const struct spec *src, struct cove_error *err);

/* Reads text (YAML or JSON) over *s. All problems are appended to `problems` as lines
 * "file:line: what: why"; if there is any, *s is unchanged and COVE_EINVAL is returned,
 * err holding the first line and "(and N more)". */
int spec_parse(struct spec *s, const char *text, size_t len, const char *name,
	       struct buf *problems, struct cove_error *err);

/* One key by dotted name; see cove_spec_set(). */
int spec_set(struct spec *s, const char *key, const char *value, struct cove_error *err);

/* The whole spec as a JSON object, in the schema's own keys and units; a new reference.
 * The round trip spec_json -> text -> spec_parse gives the same spec, `set` included:
 * keys that were asked for are written, resource defaults that were not asked for are
 * left out when explicit_only is true. */
json_t *spec_json(const struct spec *s, bool explicit_only);

/* Takes over what `changes` has set explicitly (resources by `set`; other keys when they
 * are in `given` or differ from the default). Lists are replaced, exec.env is merged by
 * name. */
int spec_merge(struct spec *s, const struct spec *changes, struct cove_error *err);

const char *spec_backend_name(enum spec_backend b);
/* "rootfs:" and the like: what the text of an image begins with. */
const char *spec_image_prefix(enum spec_image kind);
/* Is the root a directory of this host, under a layer of the sandbox's own? */
bool spec_image_is_tree(const struct spec *s);
/* Or a file system on a disk of its own, which only a machine can mount? */
bool spec_image_is_disk(const struct spec *s);

/* [a-z0-9][a-z0-9_.-]{0,62}: what a sandbox may be called. */
bool spec_name_ok(const char *name);

/* Why nothing may be mounted at this place inside: a static phrase ("is not an absolute
 * path"), or NULL if it is fine. For targets that only the caller knows: a relative
 * source's path. */
const char *spec_target_problem(const char *target);

/* ---- mounts of a spec whose targets are resolved (absolute and clean) ----------- */

/* N of record/mN, where mount i keeps what it has on disk: as long as it is the same
 * mount, whatever its place in the list. */
int spec_layer_number(const struct spec *s, size_t i);
/* Gives each mount of `new` the layer that the same mount has in `old`, and those that
 * are new the numbers from `fresh` on, which nothing on disk has. */
void spec_keep_layers(struct spec *new, const struct spec *old, int fresh);
/* The mount at the same place with the same source, or n_mounts. */
size_t spec_find_mount(const struct spec *s, const struct spec_mount *like);
/* What other mounts and masks cover below mount i, as paths relative to its target.
 * Returns how many there are; ret (borrowed strings) gets at most max of them. */
size_t spec_skips(const struct spec *s, size_t i, const char **ret, size_t max);
/* Is path the directory dir or below it? Both clean and absolute. */
bool spec_path_below(const char *path, const char *dir);
/* path without "//", "/./" and a last "/"; false if it is not absolute or does not fit.
 */
bool spec_path_clean(const char *path, char *out, size_t size);

/* "2GiB", "512M", "1.5g", "1024" (in `unit` bytes when no suffix) ; "90", "90s", "5m",
 * "2h", "1d" */
int spec_parse_size(const char *text, uint64_t unit, uint64_t *ret_bytes);
int spec_parse_duration(const char *text, uint64_t unit_ms, uint64_t *ret_ms);

/* Config files. */
struct config; /* defaults, profiles, agents, providers */
int config_parse(struct config **ret, const char *text, size_t len, const char *name,
		 bool is_project, struct buf *problems, struct cove_error *err);
void config_free(struct config *c);
/* Applies `defaults`, and profile if not NULL (an unknown one is an error that names the
 * nearest). A later config's profile of the same name wins: pass them in order. */
int config_apply(const struct config *const *configs, size_t n, const char *profile,
		 struct spec *s, struct cove_error *err);

/* Checks a file that is a config file or a spec, whichever its keys say. */
int config_check(const char *text, size_t len, const char *name, bool is_project,
		 struct buf *problems, struct cove_error *err);
/* Validated `agents` (array) and `providers` (object), borrowed; NULL: none. */
const json_t *config_agents(const struct config *c);
const json_t *config_providers(const struct config *c);

#endif
