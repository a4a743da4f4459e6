/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http1_parse - from bytes to a head, or to the reason why not.
 *
 * First http_head_end() finds where it ends, so that line ends are known to be CRLF; then
 * the head is copied once and cut into terminated strings in place.
 */
#include "egress/http1_priv.h"

#include "base/util.h"

#include <strings.h>

long http_head_end(const char *p, size_t n, size_t from, const char **why)
{
	const char *end = p + min_size(n, HTTP_HEAD_MAX);
	const char *line = from ? memrchr(p, '\n', min_size(from, n)) : NULL;
	const char *lf;

	line = line ? line + 1 : p;
	for (; (lf = memchr(line, '\n', (size_t)(end - line))); line = lf + 1) {
		if (lf == line || lf[-1] != '\r') {
			*why = "a line ends with a bare LF";
			return -EBADMSG;
		}
		if (lf != line + 1)
			continue;
		if (line != p)
			return lf + 1 - p;
		*why = "an empty line before the message";
		return -EBADMSG;
	}
	if (n < HTTP_HEAD_MAX)
		return 0;
	*why = "the head is too large";
	return -EMSGSIZE;
}

/* Cuts a line from *pos: terminated without its CRLF. The last one is empty. */
static char *next_line(char **pos)
{
	char *line = *pos;
	char *lf = strchr(line, '\n'); /* there is one: http_head_end() saw the end */

	if (!lf)
		return NULL; /* a NUL came first */
	lf[-1] = '\0';
	*pos = lf + 1;
	return line;
}

static char *trim(char *value)
{
	size_t n;

	value += strspn(value, " \t");
	n = strlen(value);
	while (n && (value[n - 1] == ' ' || value[n - 1] == '\t'))
		n--;
	value[n] = '\0';
	return value;
}

static const char *parse_field(struct http_head *h, struct http_framing *f, char *line)
{
	char *colon = strchr(line, ':');
	const char *why;
	bool taken = false;
	char *value;

	if (*line == ' ' || *line == '\t')
		return "a field is folded over lines";
	if (!colon)
		return "a field without a colon";
	if (!http_all(line, (size_t)(colon - line), CH_TOKEN))
		return "a field's name has characters that it may not have";
	*colon = '\0';
	value = trim(colon + 1);
	if (*value && !http_all(value, strlen(value), CH_VALUE))
		return "a field's value has control characters";
	why = http_framing_field(h, f, line, value, &taken);
	if (why || taken)
		return why;
	if (h->n_fields == HTTP_FIELDS_MAX)
		return "too many fields";
	h->field[h->n_fields++] = (struct http_field){.name = line, .value = value};
	return NULL;
}

static const char *parse_fields(struct http_head *h, char *pos, const char *end,
				const char *method)
{
	struct http_framing f = {0};
	const char *why = NULL;
	char *line;

	while (!why && (line = next_line(&pos)) && *line)
		why = parse_field(h, &f, line);
	if (why)
		return why;
	if (pos != end) /* a NUL ended a line early: what follows was not looked at */
		return "a NUL in the head";
	return http_framing_settle(h, &f, method);
}

static const char *parse_version(struct http_head *h, const char *text)
{
	if (strcmp(text, "HTTP/1.1") != 0 && strcmp(text, "HTTP/1.0") != 0)
		return "a version that is neither HTTP/1.1 nor HTTP/1.0";
	h->http10 = text[7] == '0';
	return NULL;
}

/* http://authority/path: keeps the path as the target, the authority for comparison. */
static const char *parse_absolute(struct http_head *h, char *target)
{
	bool tls = strncasecmp(target, "https://", 8) == 0;
	char *authority = target + (tls ? 8 : 7);
	size_t n = strcspn(authority, "/?");
	const char *path = authority + n;
	const char *why;

	if (!tls && strncasecmp(target, "http://", 7) != 0)
		return "a target that is neither a path nor a http URL";
	h->scheme = http_keep(h, tls ? "https" : "http", tls ? 5 : 4);
	h->authority = http_keep(h, authority, n);
	if (!h->scheme || !h->authority)
		return "out of memory";
	why = http_check_authority(h->authority);
	if (why)
		return why;
	if (*path == '/') {
		h->target = http_keep(h, path, strlen(path));
	} else if (!*path && strcmp(h->method, "OPTIONS") == 0) {
		h->target = http_keep(h, "*", 1);
	} else { /* "?query", or nothing */
		h->target = http_keep(h, path - 1, strlen(path) + 1);
		if (h->target)
			h->target[0] = '/';
	}
	return h->target ? NULL : "out of memory";
}

static const char *parse_target(struct http_head *h, char *target)
{
	size_t n = strlen(target);

	if (n > HTTP_TARGET_MAX)
		return "the target is too long";
	if (!http_all(target, n, CH_TARGET))
		return "a target with characters that it may not have";
	if (*target != '/' && strcmp(target, "*") != 0)
		return parse_absolute(h, target);
	if (*target == '*' && strcmp(h->method, "OPTIONS") != 0)
		return "the target * is for OPTIONS";
	h->target = target;
	return NULL;
}

static const char *parse_request_line(struct http_head *h, char *line)
{
	char *target = strchr(line, ' ');
	char *version = target ? strchr(target + 1, ' ') : NULL;
	const char *why;

	if (strcmp(line, "PRI * HTTP/2.0") == 0)
		return "HTTP/2 without negotiation";
	if (!version)
		return "a request line without three parts";
	*target++ = '\0';
	*version++ = '\0';
	if (strlen(line) > HTTP_METHOD_MAX || !http_all(line, strlen(line), CH_TOKEN))
		return "a method that is no token";
	if (strcasecmp(line, "CONNECT") == 0)
		return "CONNECT: there is no proxy here, connect directly";
	h->method = line;
	why = parse_version(h, version);
	return why ? why : parse_target(h, target);
}

static const char *parse_status_line(struct http_head *h, char *line)
{
	static char none[] = "";
	char *code = strchr(line, ' ');
	char *phrase;
	const char *why;

	if (!code)
		return "a status line without a status";
	*code++ = '\0';
	why = parse_version(h, line);
	if (why)
		return why;
	if (strspn(code, "0123456789") != 3 || (code[3] && code[3] != ' ') ||
	    code[0] == '0')
		return "a status that is not three digits";
	phrase = code[3] ? code + 4 : none;
	if (*phrase && !http_all(phrase, strlen(phrase), CH_VALUE))
		return "a status text with control characters";
	h->status = (unsigned)(code[0] - '0') * 100 + (unsigned)(code[1] - '0') * 10 +
		    (unsigned)(code[2] - '0');
	h->phrase = phrase;
	return NULL;
}

static long parse(struct http_head *h, const char *p, size_t n, const char *method,
		  const char **why)
{
	long len = http_head_end(p, n, 0, why);
	char *text, *pos, *line;

	*h = (struct http_head){.request = !method};
	if (len <= 0)
		return len;
	text = pos = http_keep(h, p, (size_t)len);
	if (!text)
		return -ENOMEM;
	line = next_line(&pos);
	*why = !line    ? "a NUL in the head"
	       : method ? parse_status_line(h, line)
			: parse_request_line(h, line);
	if (!*why)
		*why = parse_fields(h, pos, text + len, method ? method : h->method);
	if (!*why)
		return len;
	http_head_clear(h);
	return -EBADMSG;
}

long http_parse_request(struct http_head *h, const char *p, size_t n, const char **why)
{
	return parse(h, p, n, NULL, why);
}

long http_parse_response(struct http_head *h, const char *p, size_t n, const char *method,
			 const char **why)
{
	return parse(h, p, n, method, why);
}
