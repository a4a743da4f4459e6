/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar - entries of a tar archive in the pax format, printed and parsed. Pure.
 *
 * An entry is a pax header with everything that matters, a ustar header for those who
 * read nothing else, and the data. Any tar can unpack what is printed. What is parsed is
 * only what is printed here: an unknown type, key or shape is an error, since the archive
 * may be anybody's.
 *
 * Files with holes use GNU's sparse format 1.0: the data begins with a map.
 */
#ifndef COVE_SPEC_TAR_H
#define COVE_SPEC_TAR_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define TAR_BLOCK 512u
#define TAR_PATH_MAX (64u * 1024) /* bytes of a path */
#define TAR_NAME_MAX 255          /* of a part of it */
#define TAR_LINK_MAX 4095         /* of the target of a symlink */
#define TAR_PAX_MAX (1u << 20)    /* a pax header; attributes are the largest part */
#define TAR_SIZE_MAX (INT64_C(1) << 60)
#define TAR_MAP_MAX 65536u /* pieces of a file with holes */

enum tar_type {
	TAR_FILE = '0',
	TAR_LINK = '1', /* hard, to an earlier path */
	TAR_SYMLINK = '2',
	TAR_WHITEOUT = '3', /* the character device 0:0 */
	TAR_DIR = '5',
	TAR_FIFO = '6',
	TAR_PAX = 'x',
	TAR_END = 0 /* a block of zeros */
};

struct tar_entry {
	enum tar_type type;
	uint32_t mode; /* permission bits only */
	uint64_t size; /* bytes of data that follow, before the padding */
	bool sparse;
	uint64_t real_size; /* sparse: of the file */
	int64_t mtime_ns;   /* not before 1970 */
	struct buf path, link;
	struct buf xattrs; /* see tar_add_xattr() */
};

void tar_entry_init(struct tar_entry *e);
void tar_entry_reset(struct tar_entry *e); /* for the next one */
void tar_entry_clear(struct tar_entry *e);

/* Attributes "user.*": -ENOBUFS if they are too large together. */
int tar_add_xattr(struct tar_entry *e, const char *name, const void *value, size_t n);
/* Walks over them: *pos starts at 0. False at the end. */
bool tar_next_xattr(const struct tar_entry *e, size_t *pos, const char **ret_name,
		    const void **ret_value, size_t *ret_len);

/* Appends both headers. -errno. */
int tar_print(const struct tar_entry *e, struct buf *out);

/* A header block: fills in type, size and mode. -EBADMSG: not one of ours. */
int tar_parse_header(struct tar_entry *e, const unsigned char block[TAR_BLOCK]);
/* The data of a pax header: fills in the rest (and real_size, sparse). -EBADMSG. To be
 * called before the header of the entry itself is parsed. */
int tar_parse_pax(struct tar_entry *e, const char *text, size_t n);
/* Is the entry complete and consistent? Called with both headers parsed. */
int tar_check(const struct tar_entry *e);

/* Relative, clean, no "." or ".." parts. */
bool tar_path_ok(const char *path, size_t n);

static inline uint64_t tar_padded(uint64_t n)
{
	return (n + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

/* ---- the map of a file with holes ------------------------------------------------ */

struct tar_piece {
	uint64_t at, len;
};

/* Appends the map, padded to a block. */
int tar_print_map(const struct tar_piece *v, size_t n, struct buf *out);
/* One decimal line of a map. Returns bytes used, 0 if text is incomplete, -EBADMSG. */
int tar_parse_number(const char *text, size_t n, uint64_t *ret);
/* Pieces in order, without overlap, within size; their sum is `data`. */
bool tar_map_ok(const struct tar_piece *v, size_t n, uint64_t size, uint64_t data);

#endif
