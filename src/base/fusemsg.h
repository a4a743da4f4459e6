/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fusemsg - what the pump in the guest (guest/fusepump.c) and the server on the host
 * (fs/) say to each other between the messages of FUSE, in the same framing.
 */
#ifndef COVE_BASE_FUSEMSG_H
#define COVE_BASE_FUSEMSG_H

#include <stdint.h>

/* Pump to server, a request without a reply and without a body: one notification was
 * delivered to the guest's kernel. At most FUSEMSG_TOLD_MAX are on their way. */
#define FUSEMSG_TOLD 0x636f7601u
#define FUSEMSG_TOLD_MAX 64

/*
 * Server to pump, in the place of a notification's code (they are not for the kernel).
 *
 * SHRINK: the guest's kernel should forget what nobody uses.
 * HEARD: the host did something that a program which watches the directory or the file
 * (inotify) should hear of; struct fusemsg_heard follows. There is nothing to keep up to
 * date by it: that is the business of the other notifications.
 */
#define FUSEMSG_SHRINK 0x6801
#define FUSEMSG_HEARD 0x6802
#define FUSEMSG_NAME_MAX 255

enum fusemsg_what {
	HEARD_CAME = 1, /* the name is new */
	HEARD_GONE,     /* the name is no more */
	HEARD_DATA,     /* content */
	HEARD_ATTR,     /* anything else */
};

struct fusemsg_heard {
	uint64_t dir, node; /* as the kernel calls them; node 0: it does not know it */
	uint32_t what;
	uint32_t type; /* S_IFMT of it */
	char name[FUSEMSG_NAME_MAX + 1];
};

/* Longest message in either direction. */
#define FUSEMSG_MAX ((1u << 20) + 16384u)

/*
 * The window. To the guest a port moves 4 KiB at a time, so the bytes of a long READ come
 * another way: by a disk of the machine, read-only, that is memory of the host, which the
 * server has mapped. The pump chooses a slot of it and says so in `padding` of the
 * request's header, the slot's number plus one (0: the bytes are to be in the answer).
 * The server puts them there, and the answer is struct fusemsg_moved. (From the guest a
 * port moves 32 KiB at a time; WRITEs by such a disk were no faster.)
 */
#define FUSEMSG_SLOTS 4u
#define FUSEMSG_SLOT (1u << 20) /* bytes of one READ, at most */
#define FUSEMSG_WINDOW (FUSEMSG_SLOTS * FUSEMSG_SLOT)
#define FUSEMSG_WORTH (32u * 1024) /* from here on the other way is shorter */

struct fusemsg_moved {
	uint32_t size; /* that were read */
	uint32_t padding;
};

#endif
