/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan_wire - what libcove and cove-scan say to each other, on one SOCK_SEQPACKET pair.
 *
 * Both are of one build and one machine, so numbers are sent as they are. Each message is
 * one packet that starts with its type; texts follow the fixed part, one behind the other
 * and without NULs, their lengths are in it.
 *
 *	to the role:	HELLO (with a memory file), FILES (with their descriptors) ...,
 *END from it:	READY or REFUSED, then FINDING ..., PROGRESS after each FILES, DONE
 *
 * The memory file of HELLO holds the lengths of the values (uint32_t each), the values,
 * and the rule file.
 */
#ifndef COVE_WORK_SCAN_WIRE_H
#define COVE_WORK_SCAN_WIRE_H

#include <stdint.h>

#define SCAN_FD 3 /* the role's end */
#define SCAN_MAGIC 0x636f7365u
#define SCAN_PACKET 65536u /* no packet is larger */
#define SCAN_BATCH 32u     /* files of one FILES */
#define SCAN_WINDOW 256u   /* files on their way: descriptors in flight are counted */
#define SCAN_CONFIG_MAX (32u << 20)
#define SCAN_PATH_MAX 16384u /* of one name */
#define SCAN_TEXT_MAX 1000u  /* of each text of a finding but inner */
#define SCAN_INNER_MAX 4096u

enum scan_type {
	SCAN_HELLO = 1,
	SCAN_FILES,
	SCAN_END,
	SCAN_READY,
	SCAN_REFUSED,
	SCAN_FINDING,
	SCAN_PROGRESS,
	SCAN_DONE,
};

struct scan_hello {
	uint32_t type, magic;
	uint64_t max_file, rules_len;
	uint32_t n_values, has_rules;
};

struct scan_files {
	uint32_t type, count;
	uint64_t first;                /* number of the first one */
	uint16_t path_len[SCAN_BATCH]; /* then the paths */
};

enum { SCAN_RULE, SCAN_WHAT, SCAN_INNER, SCAN_EXCERPT, SCAN_PRINT, SCAN_TEXTS };

struct scan_found {
	uint32_t type, pad;
	uint64_t index, line;
	uint16_t len[SCAN_TEXTS]; /* then the texts */
	uint16_t pad2[3];
};

struct scan_note { /* READY, PROGRESS, DONE, END; REFUSED with a text behind it */
	uint32_t type;
	int32_t code; /* REFUSED: COVE_E* */
	uint64_t files, bytes;
};

#endif
