/* SPDX-License-Identifier: Apache-2.0 */
/* The rate of the host's counter: measured once a boot, the same as before if it is as
 * good as that, and never what a broken file says. */
#include "vm/tsc.h"
#include "base/io.h"
#include "tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char cache[] = "/tmp/cove-tsc.XXXXXX";
static uint64_t rate;
static int measured;

static uint64_t measure(void)
{
	measured++;
	return rate;
}

static uint64_t ask(const char *boot, uint64_t khz)
{
	rate = khz;
	measured = 0;
	return tsc_khz_by(cache, boot, measure);
}

static void write_memory(const char *text)
{
	if (write_file_in(cache, "tsc", text, strlen(text), 0600, 0) < 0)
		abort();
}

static void once_a_boot(void)
{
	OK(ask("a", 2300000) == 2300000 && measured == 1, "the first start measures");
	OK(ask("a", 9999999) == 2300000 && measured == 0, "no other of this boot does");
	OK(ask("b", 2300190) == 2300000 && measured == 1,
	   "after a boot it is measured again, and as good as before is the same");
	OK(ask("b", 9999999) == 2300000 && measured == 0, "which is remembered");
	OK(ask("c", 2302000) == 2302000 && measured == 1, "another rate is another");
	OK(ask("d", 2300000) == 2300000 && measured == 1, "and back");
	OK(ask("", 2400000) == 2400000 && ask("", 2500000) == 2500000,
	   "where boots have no name, every start measures");
}

static void broken_memory(void)
{
	static const char *const texts[] = {"",
					    "e",
					    "e ",
					    "e x",
					    "e 0\n",
					    "e -1\n",
					    "e 99999999999999999999\n",
					    "e 100000001\n",
					    "\0\0\0"};
	int good = 0, n = sizeof(texts) / sizeof(texts[0]);

	for (int i = 0; i < n; i++) {
		write_memory(texts[i]);
		good += ask("e", 2300000) == 2300000 && measured == 1;
	}
	OK(good == n, "what is no rate is measured anew");
	remove_tree_at(AT_FDCWD, cache);
	OK(ask("f", 2300000) == 2300000 && measured == 1, "no place to remember it: so");
}

static void rates(void)
{
	OK(tsc_mhz(2299500) == 2300 && tsc_mhz(2300499) == 2300 && tsc_mhz(0) == 0,
	   "a key has the nearest MHz");
	OK(tsc_alike(2300000, 2301000) && !tsc_alike(2300000, 2302000) &&
		   !tsc_alike(2302000, 2300000),
	   "half a thousandth is a measurement's");
	OK(tsc_alike(0, 2300000) && tsc_alike(2300000, 0), "who does not know agrees");
}

static void this_host(void)
{
	uint64_t a = tsc_measure(), b = tsc_measure();

#if defined(__x86_64__)
	OK(a > 100000 && a < 20000000, "this host's counter: %llu kHz",
	   (unsigned long long)a);
#endif
	OK(tsc_alike(a, b), "measured twice it is the same");
}

int main(void)
{
	if (!mkdtemp(cache))
		return 1;
	once_a_boot();
	broken_memory();
	rates();
	this_host();
	return tap_done();
}
