/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tsc - how fast the host's time-stamp counter counts. An emulated guest reads that very
 * counter and has nothing to measure it by, so it is told; and a machine that was told
 * goes wrong on a host where it counts at another rate.
 */
#ifndef COVE_VM_TSC_H
#define COVE_VM_TSC_H

#include <stdbool.h>
#include <stdint.h>

/* In kHz; 0: this host has none. Measured once a boot of the host, which takes a
 * twentieth of a second, and remembered in a file below cache_dir. What differs from the
 * boot before by no more than a measurement does is taken for the same. */
uint64_t tsc_khz(const char *cache_dir);
/* The same for this boot and this way to measure. */
uint64_t tsc_khz_by(const char *cache_dir, const char *boot, uint64_t (*measure)(void));
uint64_t tsc_measure(void);
/* One rate, measured twice; 0 is like any other: somebody did not know. */
bool tsc_alike(uint64_t a, uint64_t b);
/* For a key: the nearest, should what was remembered be lost. */
uint64_t tsc_mhz(uint64_t khz);

#endif
