/* SPDX-License-Identifier: Apache-2.0 */
/* The same edges, with the connections of a machine. */
#define RIG_MACHINE
#include "egress_edge.c"
