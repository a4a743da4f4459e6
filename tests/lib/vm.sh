# shellcheck shell=sh disable=SC2030,SC2031
# SPDX-License-Identifier: Apache-2.0
# vm.sh - a kernel and templates for tests on the vm backend, shared by all scripts of a run: the
# first one fetches the kernel and boots it, and every other one restores.
#
#   vm_prepare DIR    there is a kernel in DIR, and it has been booted
#   vm_use            this script's sandboxes are machines, with what is in $COVE_TEST_VM (default:
#                     below the build directory); else the whole file is skipped
#   vm_home DIR       gives the state directory DIR that kernel and those templates
#   own_templates     from here on, this script's templates are its own and end with it
#
# harness.sh sources it; tools/test.sh prepares the directory.

# 77: this host lacks something, and what is the last line printed. Any other failure is ours.
vm_prepare() { # DIR
	[ "$(uname -m)" = x86_64 ] || { echo "the host is no x86-64"; return 77; }
	command -v qemu-system-x86_64 >/dev/null || { echo "qemu-system-x86_64 is not installed"; return 77; }
	mkdir -p "$1" && chmod 700 "$1" || return 1
	(
		flock 9 || exit 1
		export COVE_HOME="$1" COVE_BACKEND=vm
		if [ ! -e "$1/kernels/default" ]; then
			# There is no network in the nested machine, but a package (docs/nested.md).
			timeout 200 "$COVE_BIN" kernel install -q \
				${COVE_NESTED:+--deb "$COVE_NESTED/kernel.deb"} >"$1/why" 2>&1 ||
				{ echo "no guest kernel: $(head -n 1 "$1/why")"; exit 77; }
		fi
		# The template of the default size, so that no test pays for it, and the notice that
		# machines are emulated here.
		timeout 400 "$COVE_BIN" run --rm --no-mounts -- true
	) 9>"$1/lock"
}

vm_use() {
	vm_dir=${COVE_TEST_VM:-$COVE_DIR/vm.$(id -u)}
	# A guest with sanitizers is no program that a kernel could start first.
	have STATIC_GUEST || export COVE_GUEST="${COVE_TEST_GUEST:-$COVE_SRC/build/release/cove-guest}"
	vm_prepare "$vm_dir" >"$T/.vm" 2>&1
	case $? in
	0) ;;
	77) skip_all "$(tail -n 1 "$T/.vm")" ;;
	*)
		sed 's/^/# /' "$T/.vm"
		echo 'not ok 1 - a machine starts'
		exit 1
		;;
	esac
	export COVE_BACKEND=vm
}

vm_home() { # DIR
	# That machines are emulated here has been said, and the host's counter measured.
	mkdir -m 700 "$1/cache" && { cp "$vm_dir"/cache/kvm* "$vm_dir"/cache/tsc "$1/cache/" 2>/dev/null || true; } &&
		ln -s "$vm_dir/kernels" "$1/kernels" &&
		ln -s "$vm_dir/cache/templates" "$1/cache/templates"
}

own_templates() {
	rm "$COVE_HOME/cache/templates" && mkdir -m 700 "$COVE_HOME/cache/templates"
}
