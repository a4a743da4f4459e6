/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qcow2 - is this the header of an image that stands alone?
 *
 * QEMU, confined, is who reads such a file in depth. What is looked at here is what it
 * would do beyond reading it: open a file that the header names (a backing file, a file
 * for the data), or ask for a key. Pure; the header is anybody's.
 */
#ifndef COVE_VM_QCOW2_H
#define COVE_VM_QCOW2_H

#include <stddef.h>
#include <stdint.h>

#define QCOW2_HEAD 104 /* bytes to look at; fewer are fine if the file has no more */

/* NULL, with the size of the disk in *ret_size; or what is wrong, a constant text. */
const char *qcow2_check(const void *head, size_t n, uint64_t *ret_size);

#endif
