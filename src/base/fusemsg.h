/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fusemsg - what the pump in the guest (guest/fusepump.c) and the server on the host
 * (fs/) say to each other between the messages of FUSE, in the same framing.
 */
#ifndef COVE_BASE_FUSEMSG_H
#define COVE_BASE_FUSEMSG_H

/* Pump to server, a request without a reply and without a body: one notification was
 * delivered to the guest's kernel. At most FUSEMSG_TOLD_MAX are on their way. */
#define FUSEMSG_TOLD 0x636f7601u
#define FUSEMSG_TOLD_MAX 64

/* Longest message in either direction. */
#define FUSEMSG_MAX ((1u << 20) + 16384u)

#endif
