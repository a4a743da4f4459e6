/* SPDX-License-Identifier: Apache-2.0 */
/*
 * musl-compat - the glibc names that Debian's libyaml.a, libjansson.a and libsodium.a
 * need.
 *
 * `cove` and `cove-keeper` are linked with musl (the Makefile says why), but with the
 * distribution's static libraries, which were compiled against glibc's headers with
 * _FORTIFY_SOURCE. There a call whose destination has a known size goes to a __NAME_chk()
 * of glibc, and musl has none. These keep the promise: a write beyond the destination is
 * never made, the program ends instead. Everything else these libraries call has the same
 * name and the same binary interface in both C libraries.
 *
 * `size` is what the compiler knows of the destination, SIZE_MAX if nothing. `flag` asks
 * glibc to refuse %n in a writable format; the formats of these libraries are all
 * constant.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __vsnprintf_chk(char *out, size_t n, int flag, size_t size, const char *format,
		    va_list args);
int __snprintf_chk(char *out, size_t n, int flag, size_t size, const char *format, ...);
int __sprintf_chk(char *out, int flag, size_t size, const char *format, ...);
char *__strncpy_chk(char *to, const char *from, size_t n, size_t size);
void __explicit_bzero_chk(void *to, size_t n, size_t size);

#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the format is the caller's */

int __vsnprintf_chk(char *out, size_t n, int flag, size_t size, const char *format,
		    va_list args)
{
	(void)flag;
	if (size < n)
		abort();
	return vsnprintf(out, n, format, args);
}

int __snprintf_chk(char *out, size_t n, int flag, size_t size, const char *format, ...)
{
	va_list args;
	int r;

	va_start(args, format);
	r = __vsnprintf_chk(out, n, flag, size, format, args);
	va_end(args);
	return r;
}

int __sprintf_chk(char *out, int flag, size_t size, const char *format, ...)
{
	size_t room = size > (size_t)__INT_MAX__ ? (size_t)__INT_MAX__ : size;
	va_list args;
	int r;

	(void)flag;
	va_start(args, format);
	r = vsnprintf(out, room, format, args); /* musl refuses more than INT_MAX */
	va_end(args);
	if (r >= 0 && (size_t)r >= room)
		abort();
	return r;
}

char *__strncpy_chk(char *to, const char *from, size_t n, size_t size)
{
	if (size < n)
		abort();
	return strncpy(to, from, n);
}

void __explicit_bzero_chk(void *to, size_t n, size_t size)
{
	if (size < n)
		abort();
	explicit_bzero(to, n);
}
