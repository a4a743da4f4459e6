#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Several clients of one sandbox, and attach after a terminal went away.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS JQ
cove create -q c --no-mounts && cove start -q c

ok 'ten clients at once, each with its own output' '
	for i in 0 1 2 3 4 5 6 7 8 9; do
		cove exec c -- sh -c "for n in 1 2 3 4 5; do echo $i-\$n; sleep 0.05; done; exit $i" >"$T/o$i" &
		eval "p$i=$!"
	done
	for i in 0 1 2 3 4 5 6 7 8 9; do
		eval "p=\$p$i"
		rc=0; wait $p || rc=$?
		same $i $rc
		same "$i-1 $i-2 $i-3 $i-4 $i-5" "$(paste -sd" " "$T/o$i")"
	done'
ok 'a client that reads nothing does not stop another' '
	mkfifo "$T/f"
	sleep 20 <"$T/f" & reader=$!
	cove exec c -- cat /dev/zero >"$T/f" & stuck=$!
	sleep 0.5
	for i in 1 2 3; do timeout 5 cove exec c -- true; done
	same 5000000 "$(timeout 10 cove exec c -- head -c 5000000 /dev/zero | wc -c)"
	kill $reader $stuck
	wait $stuck || :'
ok 'a client that dies takes its process along' '
	cove exec c -- sleep 66.6 & p=$!
	wait_for 3 sh -c "cove ps c | grep -q 66.6"
	kill -9 $p
	wait_for 6 sh -c "! cove ps c | grep -q 66.6"
	cove exec c -- true'
ok 'a client that hangs up in the middle of a frame does no harm' '
	sock=$(find "$COVE_HOME" -type s | head -n 1)
	[ -S "$sock" ]
	for bytes in "" "\020" "\020\000\000\000\001\000\000" "garbage garbage garbage garbage" "\377\377\377\377\001\000\000\000\000\000\000\000"; do
		perl -MSocket -e "socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, sockaddr_un(\$ARGV[0])) or die; syswrite S, eval qq{\"\$ARGV[1]\"}; select undef, undef, undef, 0.05" "$sock" "$bytes"
	done
	cove exec c -- true'
ok 'the control socket is closed to others' '
	sock=$(find "$COVE_HOME" -type s | head -n 1)
	case $(stat -c %a "$(dirname "$sock")") in 700) ;; *) same 600 "$(stat -c %a "$sock")" ;; esac'

ok 'detached: attach shows what was printed before, and goes on' '
	cove run -q d --no-mounts --detach -- sh -c "echo early; for i in 1 2 3 4 5 6 7 8; do echo tick\$i; sleep 0.2; done; exit 7"
	sleep 0.5
	rc=0; timeout 20 cove attach --no-tty d >"$T/o" </dev/null || timeout 20 cove attach d >"$T/o" </dev/null || rc=$?
	has "$(cat "$T/o")" early
	has "$(cat "$T/o")" tick8
	cove rm -f d'

if have TMUX; then
	tm() { tmux -S "$T/tmux" "$@"; }
	when_done 'tmux -S "$T/tmux" kill-server'
	screen() { tm capture-pane -p -t "$1"; }
	shows() { screen "$1" | grep -q -- "$2"; }
	ok 'the terminal dies, the session lives, attach re-joins it' '
		tm -f /dev/null new-session -d -x 90 -y 24 -s one "cove run m --no-mounts -- sh -c \"echo started; exec sh\""
		wait_for 10 shows one started
		tm send-keys -t one "X=re; echo \${X}membered; stty size" Enter
		wait_for 5 shows one remembered
		tm kill-session -t one
		sleep 0.3
		same running "$(cove ls --json | jq -r ".[] | select(.name == \"m\") | .state")"
		tm -f /dev/null new-session -d -x 100 -y 30 -s two "cove attach m; echo left; sleep 5"
		wait_for 5 shows two remembered
		tm send-keys -t two "echo \${X}joined; stty size" Enter
		wait_for 5 shows two rejoined
		wait_for 5 shows two "30 100"
		tm send-keys -t two "exit" Enter
		wait_for 5 shows two left
		tm kill-server
		cove rm -f m'
	ok 'kill -9 of the client that holds the session' '
		tm -f /dev/null new-session -d -x 80 -y 24 -s k "cove run k --no-mounts -- sh -c \"echo up; exec sh\""
		wait_for 10 shows k up
		kill -9 "$(tm list-panes -t k -F "#{pane_pid}")"
		sleep 0.3
		cove exec k -- true
		for _ in 1 2 3 4 5; do # the server of the killed session may be just ending
			! tm -f /dev/null new-session -d -x 80 -y 24 -s k2 "cove attach k" || break
			sleep 0.5
		done
		wait_for 5 shows k2 up
		tm kill-server
		cove rm -f k'
else
	skip 'attach after the terminal died' 'needs tmux'
fi

done_testing
