/* SPDX-License-Identifier: Apache-2.0 */
/* builtin - the built-in rule file, as it is, inside the program. */
#include "scan/engine_impl.h"

__asm__(".section .rodata\n"
	".globl built_in_rules\n"
	"built_in_rules:\n"
	".incbin \"rules/secrets.toml\"\n"
	".byte 0\n"
	".previous\n");
