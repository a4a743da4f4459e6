/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive - a sandbox with its snapshots as one file, to be moved elsewhere.
 *
 * A tar archive (spec/tar.h) with, in this order:
 *
 *	cove.json		{"format":1,"name":..,"version":..,"time":..}
 *	spec.json
 *	mN/ home/ root/ mask/	the units of the sandbox (core/cut.h)
 *	snapshots/TAG/		meta.json, units, volumes/V
 *	checksum		BLAKE2b of everything before it, in hex
 *
 * Ledgers stay behind: they know files of one host. Owners are not kept: whoever imports
 * owns it all. Volumes that the sandbox mounts stay where they are; snapshots have
 * copies.
 */
#ifndef COVE_CORE_ARCHIVE_H
#define COVE_CORE_ARCHIVE_H

#include "core/cut.h"

#define ARCHIVE_META "cove.json"
#define ARCHIVE_SPEC "spec.json"
#define ARCHIVE_SUM "checksum"
#define ARCHIVE_SUM_LEN 32 /* bytes; twice as many digits */
#define ARCHIVE_FORMAT 1

/* c: a cut of the living sandbox, released by this. */
int archive_export(struct cut *c, int fd, struct cove_error *err);

/* name NULL: as it was called. changes may be NULL. The name is written to ret_name. */
int archive_import(struct store *st, const char *name, int fd, const struct spec *changes,
		   char ret_name[SPEC_NAME_MAX + 1], struct cove_error *err);

#endif
