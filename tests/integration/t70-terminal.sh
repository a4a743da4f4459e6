#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs that draw on the terminal work: size, keys, colours, paste, terminfo.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS TMUX
# A server of its own for every terminal: one that is about to end takes no new session.
tm() { tmux -S "$T/tmux.$tap_n" "$@"; }
close_terminals() { for s in "$T"/tmux.*; do tmux -S "$s" kill-server 2>/dev/null; done; }
when_done close_terminals
screen() { tm capture-pane -p -t s; }
shows() { screen | grep -q -- "$1"; }
type_in() { tm send-keys -t s "$@"; }
# A terminal of 80x24 that runs CMD, then says its exit status.
open_terminal() {
	tm -f /dev/null new-session -d -x 80 -y 24 -s s "$1; echo \"exit=\$?\"; sleep 20"
}

ok 'a terminal inside when there is one outside' '
	open_terminal "cove run --no-mounts -- sh -c \"tty; stty size; exit 3\""
	wait_for 10 shows exit=3
	shows /dev/pts/
	shows "24 80"'
ok 'no terminal inside when stdout is a pipe or with --no-tty' '
	open_terminal "cove run --no-mounts --no-tty -- sh -c \"test -t 0 || echo no-tty\""
	wait_for 10 shows no-tty'
ok 'a new size arrives, with its signal' '
	open_terminal "cove run --no-mounts -- sh -c \"trap \\\"stty size\\\" WINCH; echo up; while :; do sleep 0.1; done\""
	wait_for 10 shows up
	tm resize-window -t s -x 101 -y 33
	wait_for 10 shows "33 101"'
ok 'Ctrl-C ends the command, not cove' '
	open_terminal "cove run --no-mounts -- sh -c \"echo up; sleep 60\""
	wait_for 10 shows up
	type_in C-c
	wait_for 5 shows exit=130'
ok 'Ctrl-C can be caught inside' '
	open_terminal "cove run --no-mounts -- sh -c \"trap \\\"echo caught; exit 4\\\" INT; echo up; while :; do sleep 0.1; done\""
	wait_for 10 shows up
	type_in C-c
	wait_for 5 shows caught
	wait_for 5 shows exit=4'
ok 'Ctrl-Z and job control in a shell inside' '
	open_terminal "cove run --no-mounts -- bash --norc -i"
	wait_for 10 shows "[\$#]"
	type_in "sleep 50" Enter
	sleep 0.5
	type_in C-z
	wait_for 5 shows Stopped
	type_in "kill %1; bg; echo jobs-\$((40 + 2))" Enter
	wait_for 5 shows jobs-42
	type_in "exit 0" Enter
	type_in "exit 0" Enter
	wait_for 5 shows exit=0'
ok 'Ctrl-D ends the input' '
	open_terminal "cove run --no-mounts -- cat"
	sleep 0.7
	type_in "typed" Enter
	wait_for 5 shows typed
	type_in C-d
	wait_for 5 shows exit=0'
ok 'colours come through as they are' '
	open_terminal "cove run --no-mounts -- sh -c \"tput setaf 1; tput bold; echo red; tput sgr0; printf \\\"\\\\033[38;2;1;2;3mtrue\\\\033[0m\\\n\\\"\""
	wait_for 10 shows true
	tm capture-pane -e -p -t s | grep -q "$(printf "\033\\\\[.*31m.*red\|\033\\\\[31.*red")"
	tm capture-pane -e -p -t s | grep -q "38;2;1;2;3"'
ok 'a paste of many lines arrives whole' '
	open_terminal "cove run --no-mounts -- sh -c \"stty -echo; echo up; head -n 400 | sha256sum | cut -c1-16\""
	wait_for 10 shows up
	seq -f "line %g of a long paste with some text to make it longer" 400 >"$T/paste"
	tm load-buffer "$T/paste"
	tm paste-buffer -t s -r 2>/dev/null
	wait_for 10 shows "$(sha256sum <"$T/paste" | cut -c1-16)"'
ok 'bracketed paste marks pass through' '
	open_terminal "cove run --no-mounts -- sh -c \"printf \\\"\\\\033[?2004h\\\"; stty -echo -icanon; echo up; head -c 14 | od -c | head -n 2\""
	wait_for 10 shows up
	tm set-buffer hi
	tm paste-buffer -p -t s
	wait_for 5 shows "2   0   0"'
if have LESS; then
	ok 'less opens, scrolls and closes' '
		open_terminal "cove run --no-mounts -- sh -c \"seq 1000 | less\""
		wait_for 10 shows "^1$"
		type_in G
		wait_for 5 shows "^1000$"
		type_in q
		wait_for 5 shows exit=0'
else
	skip 'less' 'needs less'
fi
if have VI; then
	ok 'vi opens, edits and writes' '
		mkdir -p "$T/v" && cd "$T/v" && echo start >file
		open_terminal "cd $T/v && cove run v -- vi -u NONE file"
		wait_for 10 shows start
		type_in "otyped inside" Escape ":wq" Enter
		wait_for 10 shows exit=0
		has "$(cove exec v -- cat "$T/v/file")" "typed inside"
		same start "$(cat "$T/v/file")"
		cove rm -f v'
else
	skip 'vi' 'needs vi'
fi
ok 'the terminal is as it was afterwards' '
	open_terminal "stty -g >$T/st1; cove run --no-mounts -- sh -c \"stty raw -echo\"; stty -g >$T/st2"
	wait_for 10 shows exit=0
	cmp "$T/st1" "$T/st2"'
ok 'the terminal is as it was after kill -9 of the guest' '
	open_terminal "stty -g >$T/st1; cove run --no-mounts -- sh -c \"stty raw -echo; echo up; sleep 50\"; stty -g >$T/st2"
	wait_for 10 shows up
	cove=$(pgrep -P "$(tm list-panes -t s -F "#{pane_pid}")" -x cove)
	kill -9 $(pgrep -P "$cove")
	wait_for 10 shows "exit="
	cmp "$T/st1" "$T/st2"'
ok 'cove shell' '
	cove create -q sh1 --no-mounts && cove start -q sh1
	open_terminal "cove shell sh1"
	sleep 1
	type_in "echo in-\$((1 + 1))" Enter
	wait_for 5 shows in-2
	type_in "exit 6" Enter
	wait_for 5 shows exit=6
	cove rm -f sh1'

# terminfo: an entry that only the host has is supplied.
if command -v tic >/dev/null && command -v infocmp >/dev/null; then
	ok 'the terminfo entry of TERM is supplied when the sandbox lacks it' '
		mkdir -p "$HOME/.terminfo"
		infocmp xterm-256color | sed "s/^xterm-256color[^,]*,/cove-test-term|test terminal,/" >"$T/ti"
		tic -o "$HOME/.terminfo" "$T/ti"
		open_terminal "TERM=cove-test-term HOME=$HOME cove run --no-mounts -- sh -c \"echo \\\$TERM; tput colors\""
		wait_for 10 shows exit=0
		shows cove-test-term
		shows "^256"'
	ok 'exec into a running sandbox supplies it as well' '
		cove create -q ti --no-mounts && cove start -q ti
		open_terminal "TERM=cove-test-term HOME=$HOME cove exec -t ti -- sh -c \"tput colors\""
		wait_for 10 shows exit=0
		shows "^256"
		cove rm -f ti'
else
	skip 'terminfo' 'needs tic and infocmp'
fi

close_terminals
done_testing
