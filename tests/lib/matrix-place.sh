# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# matrix-place.sh - sourced before harness.sh: a matrix works in memory where that can carry
# an overlay (user.* attributes), because a hundred thousand fsyncs take their time on a disk.
# MATRIX_DISK=1: on disk all the same.
if [ -z "${COVE_TEST_REAPER:-}" ] && [ -z "${COVE_TEST_TMP:-}" ] && [ -z "${MATRIX_DISK:-}" ]; then
	COVE_TEST_TMP=$(mktemp -d /dev/shm/cm.XXXXXX 2>/dev/null) || COVE_TEST_TMP=
	if [ -n "$COVE_TEST_TMP" ]; then
		rmdir "$COVE_TEST_TMP"
		COVE_TEST_TMP=/dev/shm
		export COVE_TEST_TMP
	fi
fi
