/* SPDX-License-Identifier: Apache-2.0 */
/* probe - the product's probe of /dev/kvm as a command: its verdict, and 0 if it is
 * usable. */
#include "vm/kvm_probe.h"

#include <stdio.h>

int main(void)
{
	static const char *const words[] = {
		[KVM_USABLE] = "usable",   [KVM_UNUSABLE] = "unusable",
		[KVM_DENIED] = "denied",   [KVM_ABSENT] = "absent",
		[KVM_UNKNOWN] = "unknown",
	};
	char detail[200] = "";
	enum kvm_verdict verdict = kvm_probe(detail, sizeof(detail));

	printf("%s: %s\n", words[verdict], detail);
	return (int)verdict;
}
