/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box - one running sandbox, as its keeper holds it: spec, directories, lock and place.
 *
 * Used by the one-shot (the caller is the keeper) and by cove-keeper alike.
 */
#ifndef COVE_CORE_BOX_H
#define COVE_CORE_BOX_H

#include "backend/backend.h"
#include "core/diskwatch.h"
#include "core/execs.h"
#include "core/guard.h"
#include "core/image.h"
#include "core/store.h"
#include "core/volume.h"

struct box {
	char name[SPEC_NAME_MAX + 1];
	char id[CGROUP_ID_MAX + 1]; /* unique on this host */
	struct spec spec;
	struct store *store; /* borrowed */
	struct place place;
	struct place_mount mounts[PLACE_MOUNTS_MAX];
	size_t n_mounts;
	struct place_config config;
	char *paths;           /* storage behind config and mounts */
	struct guards *guards; /* of rw mounts, or NULL */
	struct volume_locks volumes;
	struct image image; /* what its root is made of */
	char hosts[4200];
	int lock;
	bool oneshot;
	bool started;
	int64_t started_at; /* CLOCK_REALTIME seconds */
	struct diskwatch disk;
	struct audit_notes *notes;  /* of a one-shot, or NULL */
	struct egress_host *egress; /* core/egress.h; NULL: no network */
	struct trustfiles *trust;   /* core/trustfiles.h; NULL: none */
	/* core/secret.h; NULL: none. Set before box_start(), which takes them over. */
	struct secrets *secrets;
	/* What it goes on from; NULL: it begins. The same. stream: the one that goes on,
	 * 0: none. */
	const struct place_state *state;
	uint32_t state_stream;
	struct net *net;           /* core/net.h; NULL: no network */
	int net_events, net_timer; /* one descriptor to poll for all of it; -1 */
	struct execs execs;        /* whose connection is whose */
	bool who_always;
	/* Reads what the guest has said, so that a command that has just started is
	 * known. */
	void (*owner_reads)(void *owner);
	void *owner;
	time_t who_second;
	unsigned who_waits;
	char stopped_for[160]; /* why we ended it; "": we did not */
};

/* Makes paths absolute and fills what depends on where cove was called: mount sources,
 * the working directory. Refuses what this build cannot do. */
int box_resolve_spec(struct spec *s, const struct store *st, struct cove_error *err);

/* Which backend a spec gets on this host. */
int box_backend(const struct spec *s, const struct store *st, const struct backend **ret,
		struct cove_error *err);
/* What a first start makes for all later ones, now, by the caller, who hears of it by log
 * lines; the keeper then finds it. */
int box_prepare(const struct spec *s, const struct store *st, struct cove_error *err);
/* Can a saved machine, as its head describes it, go on here? */
int box_check_state(const struct spec *s, const struct store *st, const json_t *head,
		    struct cove_error *err);
/* Saved memory as an image that many can go on from, see backend.h. */
int box_share(const struct spec *s, const struct store *st,
	      const struct place_state *from, struct place_image *ret, json_t **ret_head,
	      struct cove_error *err);
int box_probe(const struct backend *be, const struct store *st, json_t *checks,
	      struct cove_error *err);

/* Starts name (record exists) or, with oneshot, a fresh record. Takes over *spec. */
int box_start(struct box *b, struct store *st, const char *name, struct spec *spec,
	      bool oneshot, bool degraded, struct cove_error *err);

/* Writes a one-shot's spec to its run directory, for whoever finds its changes if we are
 * killed. After the start, when there is time: nothing can have changed before. */
int box_note_spec(struct box *b, struct cove_error *err);

/* Takes a one-shot without changes off the list ('cove ls'), before its end. */
void box_forget(struct box *b);

/* Looks at the guarded paths of rw mounts: at the end of a command, and of the box. */
void box_check_guards(struct box *b);

/* box_setup.c: what a guest must know before its first command. */
struct session;
int box_setup(const struct box *b, struct session *s, struct cove_error *err);

/* Why the guest is gone, or silent, though nobody asked it to. */
void box_explain(struct box *b, enum place_trouble t, struct cove_error *why);

/* Ends the guest, and leaves everything else for box_end(). */
void box_halt(struct box *b);

/* After the guest has ended: releases place, lock, RUN directory. For a one-shot also
 * keeps or removes its record. */
int box_end(struct box *b, uint64_t *ret_changes, struct cove_error *err);

/* box_net.c: a command goes to the guest under this stream; refused if its labels are no
 * names. */
int box_exec(struct box *b, uint32_t stream, const uint8_t *payload, size_t n,
	     struct cove_error *err);
/* A command without network is to come: before it runs, whose connection is whose must be
 * asked for all of them. */
int box_need_who(struct box *b, struct cove_error *err);
struct wire_frame;
void box_guest_frame(struct box *b, const struct wire_frame *f); /* that it answered */
/* It runs as this process now; since: what the guest says with that (WIRE_A_SINCE). */
void box_started(struct box *b, uint32_t stream, uint32_t pid, uint64_t since);
int box_net_fd(const struct box *b); /* to poll for reading; -1: no network */
void box_net_turn(struct box *b);
/* Connections are opened, and the sandbox does not trust us yet: from here on it does. */
int box_net_trust(struct box *b, struct cove_error *err);

/* {"items":[...],"short":N,...} */
json_t *box_attest(struct box *b, int *ret_short, struct cove_error *err);
json_t *box_stats(struct box *b);
/* Ends it if it is over its disk limit (true), else says when to look again. */
bool box_check_disk(struct box *b, int64_t now_ms, int64_t *ret_next_ms);
/* What is not enforced though the spec has it: names of limits. */
json_t *box_degraded(const struct box *b);

/* The user of a spec inside. */
int box_user(const struct spec *s, uid_t *uid, gid_t *gid, const char **home,
	     const char **name, struct cove_error *err);

#endif
