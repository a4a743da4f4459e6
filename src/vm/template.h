/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template - a machine that has booted and waits, as files: `ram` (its memory, sparse),
 * `state` (its devices) and `info.json`; if it has begun to be a sandbox also `tables`
 * (what the server of its files must know). Every start maps `ram` privately and goes on
 * from there.
 *
 * A template is found by a key over all that it depends on, so a stale one is never used
 * by mistake; it is made beside and renamed into place, so it is there whole or not at
 * all. It holds no secret: nothing has been said to that machine that is one sandbox's.
 */
#ifndef COVE_VM_TEMPLATE_H
#define COVE_VM_TEMPLATE_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define TEMPLATE_KEY_HEX 33

struct template_id {
	const char *kernel;    /* its name, to show */
	const char *digest;    /* of kernel, modules and guest */
	const char *qemu;      /* version */
	const char *append;    /* what the kernel was told besides */
	const char *processor; /* the host's: a machine does not change it unnoticed */
	bool kvm;
	uint64_t tsc_mhz; /* what it was told of the host's counter; 0: nothing */
	unsigned cpus;
	uint64_t memory, swap; /* bytes */
	bool disks;            /* see vm/qemu.h */
	const char *begun;     /* what it has done of SETUP; "": nothing */
};

struct template
{
	char key[TEMPLATE_KEY_HEX];
	char dir[4200]; /* where it is, or will be */
	char making[4240];
	int lock;
	int held;        /* its directory, while somebody goes on from it */
	struct stat ram; /* of its memory, from when it was held */
};

int template_find(struct template *t, const char *cache_dir, const struct template_id *id,
		  struct cove_error *err);
/* Is there one, whole? If there is one that is not, *ret_fault says what is wrong with it
 * (a constant text), else it is NULL. Damage inside the memory itself is not looked for:
 * that shows in the machine. */
bool template_ready(const struct template *t, const struct template_id *id,
		    const char **ret_fault);
/* From here on nobody removes it, until it is let go; false: it is gone by now. */
bool template_hold(struct template *t);
void template_let_go(struct template *t);
/* Waits until nobody else makes this one; then template_ready() may have become true. */
int template_lock(struct template *t, struct cove_error *err);
void template_unlock(struct template *t);
/* Under the lock: an empty directory t->making, then its files in place. */
int template_begin(struct template *t, struct cove_error *err);
int template_commit(struct template *t, const struct template_id *id,
		    struct cove_error *err);
void template_drop(struct template *t); /* a broken one, or a half-made one */
/* Under the lock: it cannot be made, and for an hour nobody is to try again. */
void template_forgo(struct template *t);
bool template_forgone(const struct template *t);
/* What makers that were killed left behind, of any key; and templates of this kernel's
 * name, of another QEMU, of another guest or for another processor: nothing that is here
 * now would look for them. Those that are held stay. */
void template_sweep(const char *cache_dir, const struct template_id *id);

/* [{"key","kernel","cpus","memoryMiB","accelerator","qemu","bytes","madeAt"}] */
json_t *template_list(const char *cache_dir, struct cove_error *err);
/* key may be cut short if it is unique; NULL: all. Returns how many. One that a start
 * goes on from at this moment is waited for. Nothing is forgone any more after. */
int template_remove(const char *cache_dir, const char *key, struct cove_error *err);

#endif
