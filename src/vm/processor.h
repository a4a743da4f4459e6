/* SPDX-License-Identifier: Apache-2.0 */
/* processor - which one this host has, as a short text to compare. */
#ifndef COVE_VM_PROCESSOR_H
#define COVE_VM_PROCESSOR_H

#define PROCESSOR_HEX 33

/* Of its model and of all that it says it can do; not of how fast it is right now. */
void processor_digest(char out[PROCESSOR_HEX]);
/* The same of a text like /proc/cpuinfo. */
void processor_digest_text(const char *cpuinfo, char out[PROCESSOR_HEX]);

#endif
