/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/check.h"

#include "base/util.h"
#include "policy/addr.h"
#include "policy/glob.h"
#include "policy/host.h"
#include "spec/spec.h"
#include "spec/units.h"

#include <arpa/inet.h>
#include <ctype.h>

bool spec_name_ok(const char *name)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789_.-";
	size_t n = strlen(name);

	return n > 0 && n <= SPEC_NAME_MAX && strchr(first, name[0]) &&
	       strspn(name, rest) == n;
}

const char *check_name(const char *text)
{
	return spec_name_ok(text)
		       ? NULL
		       : "is not a name; use 1 to 63 of a-z 0-9 _ . - and begin "
			 "with a letter or digit";
}

const char *check_env_name(const char *text)
{
	bool ok = isalpha((unsigned char)text[0]) || text[0] == '_';

	for (const char *s = text; *s && ok; s++)
		ok = isalnum((unsigned char)*s) || *s == '_';
	return ok ? NULL
		  : "is not a variable name; use letters, digits and _, not beginning "
		    "with "
		    "a digit";
}

const char *check_user(const char *text)
{
	static const char why[] =
		"is not a user; write a name (letters, digits, _ . -) or "
		"a number up to 4294967294";
	uint64_t id;
	bool ok = isalpha((unsigned char)text[0]) || text[0] == '_';

	if (isdigit((unsigned char)text[0]))
		return units_count(text, &id) == 0 && id < UINT32_MAX ? NULL : why;
	for (const char *s = text; *s && ok; s++)
		ok = isalnum((unsigned char)*s) || strchr("_.-", *s);
	return ok && strlen(text) <= 32 ? NULL : why;
}

bool port_parse(const char *text, uint64_t *ret)
{
	uint64_t v;

	if (strlen(text) > 5 || units_count(text, &v) < 0 || v < 1 || v > 65535)
		return false;
	*ret = v;
	return true;
}

const char *check_ports(const char *text)
{
	static const char why[] = "is not a port; write 1 to 65535, or a range such as "
				  "8000-8100";
	const char *dash = strchr(text, '-');
	uint64_t from, to;
	char low[8];

	if (!dash)
		return port_parse(text, &from) ? NULL : why;
	if ((size_t)(dash - text) >= sizeof(low))
		return why;
	snprintf(low, sizeof(low), "%.*s", (int)(dash - text), text);
	return port_parse(low, &from) && port_parse(dash + 1, &to) && from <= to ? NULL
										 : why;
}

/* ---- hosts ---------------------------------------------------------------------- */

static const char not_a_host[] =
	"is not a host; write a name, *.SUFFIX, **.SUFFIX, an IP address or a CIDR range";

/* Of what looks like ADDRESS/BITS: is only its base too precise? */
static bool base_too_precise(const char *text)
{
	const char *slash = strchr(text, '/');
	char base[ADDR_TEXT];
	struct addr a;
	uint64_t bits;
	int n = slash ? (int)(slash - text) : 0;

	if (!slash || n >= (int)sizeof(base))
		return false;
	snprintf(base, sizeof(base), "%.*s", n, text);
	return addr_parse(base, &a) == 0 && units_count(slash + 1, &bits) == 0 &&
	       bits <= (strchr(base, ':') ? 128 : 32);
}

const char *check_rule_host(const char *text)
{
	char name[HOST_MAX + 1];
	enum host_kind kind;

	if (host_pattern(text, &kind, name) == 0)
		return NULL;
	if (base_too_precise(text))
		return "has address bits beyond its prefix; write the first address of "
		       "the range, such as 10.0.0.0/8";
	for (const char *s = text; *s; s++)
		if ((unsigned char)*s >= 0x80)
			return "is not a host; write an international name in its xn-- "
			       "form";
	return not_a_host;
}

const char *check_host(const char *text)
{
	if (strcmp(text, "*") == 0 || strcmp(text, "**") == 0)
		return "is every host; write network: {mode: open} to allow all of them";
	return check_rule_host(text);
}

const char *check_host_port(const char *text)
{
	const char *colon = strrchr(text, ':');
	char host[1024]; /* UTF-8 is longer than what it becomes */
	size_t n = colon ? (size_t)(colon - text) : 0;
	uint64_t port;

	if (!colon || !check_host(text)) /* no port, or a bare IPv6 address */
		return check_host(text);
	if (n >= sizeof(host))
		return not_a_host;
	snprintf(host, sizeof(host), "%.*s", (int)n, text);
	if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		memmove(host, host + 1, n - 1);
	} else if (strchr(host, ':')) {
		return not_a_host;
	}
	if (!port_parse(colon + 1, &port))
		return "does not end in a port; write HOST:PORT with a port of 1 to "
		       "65535";
	return check_host(host);
}

const char *check_reach(const char *text)
{
	struct prefix p;

	for (unsigned c = ADDR_PUBLIC + 1; c <= ADDR_SELF; c++)
		if (strcmp(text, addr_class_name(c)) == 0)
			return NULL;
	if (prefix_parse(text, &p) == 0)
		return NULL;
	return "is neither an address, a range nor one of unspecified, loopback, "
	       "link-local, metadata, private, shared, ula, multicast, reserved and self";
}

const char *check_subject(const char *text)
{
	size_t n = 0;

	for (; (unsigned char)text[n] > 0x20 && text[n] != 0x7f; n++)
		;
	return n > 0 && n <= 255 && !text[n]
		       ? NULL
		       : "is not the name of an agent, a tool or an exec";
}

/* ---- paths ---------------------------------------------------------------------- */

static bool has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20)
			return true;
	return false;
}

const char *check_path(const char *text)
{
	return *text && !has_control(text) ? NULL : "is not a path";
}

static bool has_dotdot(const char *s)
{
	for (; s; s = strchr(s, '/')) {
		s += *s == '/';
		if (s[0] == '.' && s[1] == '.' && (s[2] == '/' || s[2] == '\0'))
			return true;
	}
	return false;
}

const char *check_socket(const char *text)
{
	if (text[0] != '/' || has_control(text))
		return "is not an absolute path";
	return has_dotdot(text) ? "contains '..'; write the path without it" : NULL;
}

const char *check_host_end(const char *text)
{
	const char *colon = strrchr(text, ':');
	unsigned char ip[16];
	char host[64];
	size_t n = colon ? (size_t)(colon - text) : 0;
	uint64_t port;

	if (!colon || strchr(text, '/'))
		return check_path(text);
	if (n >= sizeof(host) ||
	    (strcmp(colon + 1, "0") != 0 && !port_parse(colon + 1, &port)))
		return "does not end in a port";
	memcpy(host, text, n);
	host[n] = '\0';
	if (strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, ip) == 1)
		return NULL;
	if (n < 4 || host[0] != '[' || host[n - 1] != ']')
		return "is not an address of this host";
	host[n - 1] = '\0';
	return inet_pton(AF_INET6, host + 1, ip) == 1 ? NULL
						      : "is not an address of this host";
}

bool spec_path_clean(const char *text, char *out, size_t size)
{
	size_t n = 0;

	if (text[0] != '/' || size < 2)
		return false;
	while (*text) {
		size_t len;

		text += strspn(text, "/");
		len = strcspn(text, "/");
		if (len == 0)
			break;
		if (len == 1 && *text == '.') {
			text++;
			continue;
		}
		if (n + len + 2 > size)
			return false;
		out[n++] = '/';
		memcpy(out + n, text, len);
		n += len;
		text += len;
	}
	if (n == 0)
		out[n++] = '/';
	out[n] = '\0';
	return true;
}

const char *check_target(const char *text)
{
	static const struct {
		const char *path;
		bool below; /* everything below it as well */
	} taken[] = {
		{"/",         false},
                {"/proc",     true },
                {"/dev",      true },
                {"/sys",      true },
		{"/usr",      false},
                {"/etc",      false},
                {"/bin",      false},
                {"/sbin",     false},
		{"/lib",      false},
                {"/run/cove", true },
	};
	static const char why[] =
		"cannot be mounted over; the sandbox needs it (also /, /proc, "
		"/dev, /sys, /usr, /etc, /bin, /sbin, /lib*, /run/cove)";
	const char *bad = check_socket(text);
	char path[SPEC_STR_MAX + 2];

	if (bad)
		return bad;
	if (!spec_path_clean(text, path, sizeof(path)))
		return "is too long";
	if (strncmp(path, "/lib", 4) == 0 && !strchr(path + 1, '/') && strlen(path) <= 7)
		return why; /* /lib, /lib32, /lib64, /libx32 */
	for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
		size_t n = strlen(taken[i].path);

		if (strncmp(path, taken[i].path, n) == 0 &&
		    (path[n] == '\0' || (taken[i].below && path[n] == '/')))
			return why;
	}
	return NULL;
}

const char *check_inner(const char *text)
{
	if (text[0] == '/' || !text[strspn(text, "./")] || has_control(text))
		return "is not a path below the mount";
	return has_dotdot(text) ? "contains '..'; write the path without it" : NULL;
}

const char *check_mask(const char *text)
{
	return text[0] == '/' ? check_target(text) : check_inner(text);
}

const char *spec_target_problem(const char *target)
{
	return check_target(target);
}

/* ---- the rest ------------------------------------------------------------------- */

const char *check_words(const char *text)
{
	return text[strspn(text, " \t\r\n")] ? NULL : "is empty";
}

const char *check_glob(const char *text)
{
	return *text && !has_control(text)
		       ? NULL
		       : "is not a pattern; write a path with *, ** or ?";
}

const char *check_url_path(const char *text)
{
	return text[0] == '/' && !has_control(text) && !strpbrk(text, " \x7f") &&
			       strlen(text) <= GLOB_MAX
		       ? NULL
		       : "is not a path of a request; begin it with / (* and ** are "
			 "wild)";
}

const char *check_method(const char *text)
{
	size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-");

	return (n > 0 && n <= 20 && !text[n])
		       ? NULL
		       : "is not a method; write GET, POST and so on";
}

const char *check_reference(const char *text)
{
	bool ok = isalnum((unsigned char)text[0]);

	for (const char *s = text; *s && ok; s++)
		ok = isalnum((unsigned char)*s) || strchr("._-/:@+", *s);
	return ok ? NULL : "is not an image reference";
}
