/* SPDX-License-Identifier: Apache-2.0 */
/* Synthetic addresses: one for each name, never re-pointed while it lives; hosts files.
 */
#include "egress/names.h"

#include "base/util.h"
#include "egress/hosts.h"
#include "tap.h"

#define HOUR 3600000LL
#define LIVE (61000LL + HOUR)

static struct addr address(const struct name *e, bool v6)
{
	struct addr a = {{0}};

	if (e)
		names_addr(e, v6, &a);
	return a;
}

static bool is(const struct addr *a, const char *text)
{
	char out[ADDR_TEXT];

	return strcmp(addr_text(a, out), text) == 0;
}

static const struct name *numbered(struct names *n, const char *stem, unsigned i,
				   int64_t now)
{
	char text[64];

	snprintf(text, sizeof(text), "%s%u.example", stem, i);
	return names_get(n, text, now);
}

static void one_address_each(void)
{
	struct names *n = NULL;
	struct addr a4, a6, b4;

	OK(names_new(&n, NAMES_MAX) == 0, "made");
	a4 = address(names_get(n, "a.example", 1000), false);
	a6 = address(names_get(n, "a.example", 1000), true);
	b4 = address(names_get(n, "b.example", 1000), false);
	OK(is(&a4, "198.18.1.0") && is(&a6, "fd63:6f76:65::100"), "the first name");
	OK(is(&b4, "198.18.1.1"), "the second");
	OK(strcmp(names_by_addr(n, &a4, 1000)->text, "a.example") == 0 &&
		   names_by_addr(n, &a6, 1000) == names_by_addr(n, &a4, 1000),
	   "both families lead back");
	addr_parse("198.18.9.9", &a4);
	OK(names_is_synthetic(&a4) && !names_by_addr(n, &a4, 1000), "nobody has it");
	addr_parse("198.19.255.255", &a4);
	OK(names_is_synthetic(&a4) && !names_by_addr(n, &a4, 1000),
	   "the last of the range");
	addr_parse("198.20.1.0", &a4);
	OK(!names_is_synthetic(&a4) && !names_by_addr(n, &a4, 1000), "outside of it");
	addr_parse("fd63:6f76:65::1:0:100", &a6);
	OK(!names_by_addr(n, &a6, 1000), "v6 with bits in between is nobody");
	addr_parse("fd63:6f76:65::ffff:ffff", &a6);
	OK(!names_by_addr(n, &a6, 1000), "v6 beyond the numbers is nobody");
	addr_parse("::ffff:198.18.1.0", &a6);
	OK(names_by_addr(n, &a6, 1000), "a mapped address is the IPv4 address");
	names_free(n);
}

static void live_names_stay(void)
{
	struct names *n = NULL;
	const struct name *held;
	struct addr a;

	if (names_new(&n, 4) < 0)
		abort();
	held = name_ref(numbered(n, "n", 0, 0));
	a = address(held, false);
	for (unsigned i = 1; i < 4; i++)
		numbered(n, "n", i, 1000 * i);
	OK(!numbered(n, "new", 0, HOUR), "full of live names: no new one");
	OK(numbered(n, "n", 1, HOUR), "one that is there is refreshed");
	OK(numbered(n, "new", 0, LIVE + 3000), "the one unused for longest goes");
	OK(names_by_addr(n, &a, LIVE + 3000) == held, "not the one in use");
	OK(numbered(n, "new", 1, LIVE + 4000), "then the next");
	OK(!numbered(n, "new", 2, LIVE + 4000), "and no refreshed one");
	name_unref(n, held);
	OK(!numbered(n, "new", 2, LIVE + 5000), "released a moment ago: still live");
	OK(numbered(n, "new", 2, 4 * LIVE), "long after: room again");
	names_free(n);
}

static void referenced_names_block(void)
{
	struct names *n = NULL;

	if (names_new(&n, 2) < 0)
		abort();
	name_ref(numbered(n, "n", 0, 0));
	name_ref(numbered(n, "n", 1, 0));
	OK(!numbered(n, "n", 2, 100 * LIVE), "all are in use: no new one, however late");
	names_free(n);
}

/* Every other number is given out before one comes back. */
static void numbers_come_back_last(void)
{
	struct names *n = NULL;
	const unsigned all = (1u << 17) - 512;
	int64_t now = 0;
	struct addr first, again;
	unsigned i;

	if (names_new(&n, 3) < 0)
		abort();
	first = address(numbered(n, "n", 0, now), false);
	for (i = 1; i < all; i++) {
		again = address(numbered(n, "n", i, now += LIVE), false);
		if (addr_equal(&first, &again))
			break;
	}
	OK(i == all, "%u different numbers first", i);
	OK(is(&again, "198.19.254.255"), "the last one");
	again = address(numbered(n, "n", i, now += LIVE), false);
	OK(addr_equal(&first, &again), "then the first again");
	OK(strcmp(names_by_addr(n, &again, now)->text, "n130560.example") == 0,
	   "it leads to the new name");
	names_free(n);
}

static void full_table(void)
{
	struct names *n = NULL;
	unsigned made = 0;

	if (names_new(&n, NAMES_MAX) < 0)
		abort();
	for (unsigned i = 0; i < NAMES_MAX + 10; i++)
		made += !!numbered(n, "x", i, 5);
	OK(made == NAMES_MAX, "%u names, then no more", made);
	names_free(n);
}

static void hosts_files(void)
{
	static const char text[] = "# comment\n"
				   "127.0.0.1\tlocalhost\n"
				   "::1 localhost ip6-localhost\r\n"
				   "10.0.0.1 A.Example a # not.this\n"
				   "10.0.0.2 a.example bad..name 1.2.3.4\n"
				   "fe80::1%eth0 scoped\n"
				   "not-an-address foo\n"
				   "10.0.0.3\n"
				   "10.0.0.4 last";
	struct hosts *h = NULL;
	struct addr a[4];

	OK(hosts_parse(text, sizeof(text) - 1, &h) == 0, "parsed");
	OK(hosts_find(h, "localhost", a, 4) == 2 && is(&a[0], "127.0.0.1") &&
		   is(&a[1], "::1"),
	   "two lines for one name, in order");
	OK(hosts_find(h, "a.example", a, 4) == 2 && is(&a[0], "10.0.0.1"), "case");
	OK(hosts_find(h, "a.example", a, 1) == 1, "at most as many as fit");
	OK(hosts_find(h, "ip6-localhost", a, 4) == 1, "second name of a line");
	OK(hosts_find(h, "last", a, 4) == 1 && is(&a[0], "10.0.0.4"), "no newline");
	OK(!hosts_find(h, "not.this", a, 4) && !hosts_find(h, "foo", a, 4) &&
		   !hosts_find(h, "scoped", a, 4) && !hosts_find(h, "bad..name", a, 4),
	   "comments, what is no address, scopes, what is no name");
	hosts_free(h);
	OK(hosts_parse("", 0, &h) == 0 && !hosts_find(h, "a", a, 4), "empty");
	hosts_free(h);
	OK(!hosts_find(NULL, "a", a, 4), "none");
}

int main(void)
{
	one_address_each();
	live_names_stay();
	referenced_names_block();
	numbers_come_back_last();
	full_table();
	hosts_files();
	return tap_done();
}
