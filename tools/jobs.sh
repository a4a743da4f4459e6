# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# jobs.sh - sourced by test.sh: tests that run beside each other and read as if they had not.
#
#   jobs_begin DIR     a scratch directory for it
#   beside FUNC ARG... runs FUNC, as soon as fewer than $JOBS (default 2) others run
#   alone FUNC ARG...  runs FUNC while nothing else does
#   jobs_end           waits for all of them
#   jobs_stop          an interrupted run: ends all of them, and waits until they have
#   during CMD...      what FUNC runs its long command with, so that jobs_stop reaches it
#
# What a FUNC prints, and what it calls record for, comes out once all before it are through: in
# the order of the calls, whole, and written by one process.

job_n=0       # started
job_shown=0   # printed
job_running=0 # started, and not heard of since

jobs_begin() {
	job_dir=$1
	mkdir -p "$job_dir" && mkfifo "$job_dir/ended" || exit 1
	exec 3<>"$job_dir/ended"
}

record() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"${job_results:-$results}"; }

during() {
	"$@" 3>&- &
	job_command=$!
	trap 'kill $job_command 2>/dev/null; wait $job_command; exit 143' TERM
	wait $job_command
}

job_show() {
	while [ -e "$job_dir/$((job_shown + 1)).ended" ]; do
		job_shown=$((job_shown + 1))
		cat "$job_dir/$job_shown.out"
		cat "$job_dir/$job_shown.results" >>"$results"
		rm -f "$job_dir/$job_shown".*
	done
}

# One of them ends.
job_wait() {
	read -r job_ended <&3 || return 0 # a signal; its trap runs now
	rm -f "$job_dir/$job_ended.pid"
	: >"$job_dir/$job_ended.ended"
	job_running=$((job_running - 1))
	job_show
}

job_room() { # N: until fewer than N run
	while [ $job_running -ge "$1" ]; do job_wait; done
}

job_start() { # FUNC ARG...
	job_n=$((job_n + 1))
	job_running=$((job_running + 1))
	job_results=$job_dir/$job_n.results
	: >"$job_results"
	(
		# However it ends, it is heard of.
		trap 'echo $job_n >&3' EXIT
		trap 'exit 143' TERM
		"$@"
	) >"$job_dir/$job_n.out" 2>&1 </dev/null &
	echo $! >"$job_dir/$job_n.pid"
	job_results=
}

beside() {
	job_room "${JOBS:-2}"
	job_start "$@"
}

alone() {
	job_room 1
	job_start "$@"
	job_room 1
}

jobs_end() { job_room 1; }

jobs_stop() {
	for job_pid in "$job_dir"/*.pid; do
		[ ! -e "$job_pid" ] || kill "$(cat "$job_pid")" 2>/dev/null
	done
	wait
}
