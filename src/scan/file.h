/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file - everything in one file: its name, its bytes, UTF-16 in them, and what is inside
 * if it is an archive. The descriptor is read with pread() only.
 */
#ifndef COVE_SCAN_FILE_H
#define COVE_SCAN_FILE_H

#include "scan/engine.h"

#include <sys/types.h>

#define FILE_CHUNK (2u << 20)    /* scanned at a time: it stays in the cache */
#define FILE_OVERLAP (64u << 10) /* longest match that a chunk's edge cannot hide */

/* Bounds of one file and everything packed in it; beyond is a finding. */
#define ARCHIVE_DEPTH 3
#define ARCHIVE_ENTRIES 100000u
#define ARCHIVE_BYTES (1ull << 30) /* unpacked, in all */
#define ARCHIVE_RATIO 250u /* unpacked to packed, once ARCHIVE_RATIO_FROM is passed */
#define ARCHIVE_RATIO_FROM (64ull << 20)
#define ARCHIVE_NESTED (64u << 20) /* of an archive inside an archive: held in memory */

struct file_finding {
	const struct found *found;
	const char *inner; /* path in the archive, "a.zip!/b.txt" when nested; or "" */
};

struct file_scanner {
	struct engine *engine;
	uint64_t max_file;
	void (*report)(void *arg, const struct file_finding *f);
	void *arg;
	uint64_t bytes; /* looked at, counted up */
	char *buf;      /* FILE_CHUNK + FILE_OVERLAP */
	const char *path, *inner;
	bool zeros; /* the file at hand has a NUL */
};

int file_scanner_init(struct file_scanner *s, struct engine *e); /* or -ENOMEM */
void file_scanner_clear(struct file_scanner *s);
void file_scan(struct file_scanner *s, const char *path, int fd);

/* Where bytes come from, for the chunk loop: returns how many (0: end), -errno. */
typedef ssize_t source_fn(void *arg, char *buf, size_t n);
/* Scans a stream as the content of s->path, s->inner. 0, or what the source said. */
int file_stream(struct file_scanner *s, source_fn *read, void *arg);
void file_on_found(void *arg, const struct found *f); /* arg: the scanner */
void file_report(struct file_scanner *s, const char *rule, const char *what);

/* True if the first bytes (or, for zip, the last) are those of an archive. */
struct archive_source {
	int fd; /* -1: memory */
	const char *data;
	uint64_t size;
};
bool archive_like(const struct archive_source *src);
void archive_look(struct file_scanner *s, const struct archive_source *src);

#endif
