#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files of the host that are not mounted stay out of reach, by any path.
. "$(dirname "$0")/../lib/harness.sh"
. "$(dirname "$0")/../lib/escape.sh"
need USERNS

SECRET=canary-$$-$(date +%s)
canary() { # PATH: one more file of the host that nobody inside may see
	mkdir -p "$(dirname "$1")" && echo "$SECRET" >"$1"
}
canary "$HOME/.ssh/id_ed25519"
canary "$T/outside"
canary "/var/tmp/ct-$$/canary"
when_done 'rm -rf /var/tmp/ct-$$'
real_home=$(getent passwd "$(id -u)" | cut -d: -f6)
if [ -w "$real_home" ]; then
	canary "$real_home/.ct-canary-$$"
	when_done 'rm -f "$real_home/.ct-canary-$$"'
else
	real_home=$HOME
	canary "$real_home/.ct-canary-$$"
fi
start_box || exit 1

# The same program reads what it may: otherwise the refusals below would mean nothing.
ok 'a file of the workspace is read' 'in_box agent "$A" read "$W/main.c"'
ok 'a file of the image is read' 'in_box agent "$A" read /etc/passwd'

for file in "$HOME/.ssh/id_ed25519" "$T/outside" "/var/tmp/ct-$$/canary" "$real_home/.ct-canary-$$"; do
	attempt "read $(basename "$file")" host read-match "$file" "$SECRET"
	attempt "by .. to $(basename "$file")" host dotdot-walk "$file" "$SECRET"
	attempt "by a symlink made inside to $(basename "$file")" host symlink-walk "$W" "$file" "$SECRET"
	attempt "by an open descriptor to $(basename "$file")" none fd-walk "$file" "$SECRET"
	attempt "by /proc/PID/root to $(basename "$file")" host proc-root "$file" "$SECRET"
done

ln -s "$T/outside" "$W/link-abs"
ln -s ../outside "$W/link-rel"
ln -s ../../../../../../../../.. "$W/up"
attempt 'by an absolute symlink of the project' host read-match "$W/link-abs" "$SECRET"
attempt 'by a relative symlink of the project' host read-match "$W/link-rel" "$SECRET"
attempt 'by a directory symlink of the project' host read-match "$W/up$T/outside" "$SECRET"
attempt 'hard link to a file that is not mounted' host hardlink "$T/outside" "$W/hard-$$"
rm -f "$W/hard-$$"
attempt 'hard link from the image to the workspace' none hardlink /etc/passwd "$W/hard-2"
attempt 'open by file handle' root handle "$W" "$T/outside" "$SECRET"
attempt 'chroot and back up' root chroot-escape "$W" "$T/outside" "$SECRET"

attempt 'read the password hashes' root read /etc/shadow
attempt 'read the group passwords' root read /etc/gshadow
attempt 'list the home directories of others' none list /home "$(basename "$real_home")"
attempt "list the caller's home" host list "$real_home" ".ct-canary-$$"
attempt 'list the parent of the workspace' host list "$T" outside
attempt 'list the state of cove' host list "$COVE_HOME" sandboxes
attempt 'host logs' none list /var/log dpkg.log
attempt 'host boot files' none list /boot grub

for dir in /usr/bin /etc /lib /usr/lib /usr/local /bin; do
	attempt "create a file in $dir" none create "$dir/.ct-$$"
done
attempt 'write to the passwd file' none write /etc/passwd 'x:x:0:0::/:/bin/sh'
attempt 'replace a program' none unlink /usr/bin/env
attempt 'write the preload list' none create /etc/ld.so.preload
ok 'the host has none of these files' '! ls /usr/bin/.ct-$$ /etc/.ct-$$ /lib/.ct-$$ /usr/lib/.ct-$$ /bin/.ct-$$'

done_testing
