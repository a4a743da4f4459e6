/* SPDX-License-Identifier: Apache-2.0 */
/* banned.h - names that must not be used anywhere; included before every source file. */
#ifndef COVE_BANNED_H
#define COVE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef alloca /* stdlib.h makes it a macro */
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atoll gets alloca \
	system popen tmpnam mktemp

#endif
