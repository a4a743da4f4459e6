#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cove on a terminal: raw mode that is always given back, ^C, ^Z, size, shells, questions.
. "$(dirname "$0")/../lib/harness.sh"
need USERNS EXPECT
mkdir "$T/p" && cd "$T/p" || exit 1
export TERM=xterm
paste=$(printf '\033[200~paste\033[201~')

# on_tty SCRIPT: runs it with a shell on a new terminal; its output goes to $T/tty
on_tty() {
	printf '%s\n' "$1" >"$T/script"
	cat >"$T/exp" <<-'END'
	log_user 0
	set timeout 20
	spawn -noecho sh $env(T)/script
	expect eof {} timeout fail
	set f [open $env(T)/tty w]
	puts -nonewline $f $expect_out(buffer)
	close $f
	exit [lindex [wait] 3]
	END
	expect "$T/exp"
}
# talk EXPECT-SCRIPT: a conversation
talk() {
	{ echo 'log_user 1; set timeout 15; proc fail {} { puts TIMEOUT; exit 99 }'; printf '%s\n' "$1"; } >"$T/exp"
	expect "$T/exp"
}

ok 'a command gets a terminal when cove has one' '
	on_tty "cove run -q --no-mounts -- sh -c \"test -t 0 && test -t 1 && test -t 2 && tty\""
	has "$(cat "$T/tty")" /dev/pts/'
ok '-T: none; -t: one even through a pipe' '
	on_tty "cove run -q --no-mounts -T -- test -t 0" || same 1 $?
	same yes "$(cove run -q --no-mounts -t -- sh -c "test -t 1 && echo yes" </dev/null | tr -d "\r")"'
ok 'the terminal is as before: after success, failure, a missing command' '
	on_tty "stty -g >$T/a
	cove run -q --no-mounts -- true; stty -g >>$T/a
	cove run -q --no-mounts -- sh -c \"stty raw -echo; exit 3\"; stty -g >>$T/a
	cove run -q --no-mounts -- no-such-program; stty -g >>$T/a
	cove run -q --no-mounts --mount /no/where:ro -- true; stty -g >>$T/a
	cove run -q --no-mounts -- sh -c \"kill -9 \\\$\\\$\"; stty -g >>$T/a"
	same 6 "$(wc -l <"$T/a")"
	same 1 "$(sort -u "$T/a" | wc -l)"'
for sig in TERM HUP INT QUIT; do
	ok "the terminal is as before: after SIG$sig" '
		on_tty "trap : HUP
		stty -g >$T/a
		(while [ ! -s $T/pid2 ]; do sleep 0.1; done; sleep 0.7; kill -$1 \$(cat $T/pid2)) &
		sh -c \"echo \\\$\\\$ >$T/pid2; exec cove run -q --no-mounts -- sleep 20\"
		echo rc \$? >$T/rc
		stty -g >>$T/a"
		rm -f "$T/pid2"
		same 1 "$(sort -u "$T/a" | wc -l)"
		same 2 "$(wc -l <"$T/a")"
		has "$(cat "$T/rc")" "rc 1"' $sig
done

cat >size.sh <<'END'
trap 'stty size; exit 0' WINCH
stty size
while :; do sleep 0.1; done
END
ok 'rows and columns, at the start and when they change' '
	talk "spawn -noecho sh -c {stty rows 31 cols 91; exec cove run --rm -- sh size.sh}
	expect -ex {31 91} {} timeout fail
	sleep 0.3
	stty rows 45 < \$spawn_out(slave,name)
	expect -ex {45 91} {} timeout fail
	expect eof {} timeout fail"'
cat >int.sh <<'END'
trap 'echo got it; exit 6' INT
echo ready
while :; do sleep 0.1; done
END
ok '^C is for the command' '
	rc_is 6 talk "spawn -noecho cove run --rm -- sh int.sh
	expect ready {} timeout fail
	send \003
	expect -ex {got it} {} timeout fail
	expect eof {} timeout fail
	exit [lindex [wait] 3]"'
ok 'no command: a shell, with job control' '
	rc_is 5 talk "spawn -noecho cove run --rm
	send \"echo up\\\$((1+1))\\r\"
	expect -ex up2 {} timeout fail
	send \"sleep 50\\r\"
	sleep 0.7
	send \032
	expect Stopped {} timeout fail
	send \"fg\\r\"
	sleep 0.5
	send \003
	send \"exit 5\\r\"
	expect eof {} timeout fail
	exit [lindex [wait] 3]"'
cat >paste.sh <<'END'
echo "term $TERM"
stty raw -echo
echo go
dd bs=1 count=17 2>/dev/null | od -An -tx1 -w17
END
ok 'TERM and paste pass untouched' '
	talk "spawn -noecho cove run --rm -- sh paste.sh
	expect -ex {term xterm} {} timeout fail
	expect go {} timeout fail
	send {$paste}
	expect -ex {1b 5b 32 30 30 7e 70 61 73 74 65 1b 5b 32 30 31 7e} {} timeout fail
	expect eof {} timeout fail"'
cat >main.sh <<'END'
echo first
read -r x
echo "second $x"
exit 4
END
ok 'the main session outlives its terminal; attach joins it' '
	talk "spawn -noecho cove run main -- sh main.sh
	expect first {} timeout fail
	close
	wait"
	rc_is 4 talk "spawn -noecho cove attach main
	expect first {} timeout fail
	send \"hello\\r\"
	expect -ex {second hello} {} timeout fail
	expect eof {} timeout fail
	exit [lindex [wait] 3]"
	cove rm -f main'
ok 'shell NAME' '
	cove create -q sh --no-mounts && cove start sh
	rc_is 3 talk "spawn -noecho cove shell sh
	send \"echo up\\\$((1+1))\\r\"
	expect -ex up2 {} timeout fail
	send \"exit 3\\r\"
	expect eof {} timeout fail
	exit [lindex [wait] 3]"
	cove rm -f sh'
ok 'reset asks, and no means no' '
	cove create -q r --no-mounts
	rc_is 1 talk "spawn -noecho cove reset r
	expect y/N {} timeout fail
	send \"n\\r\"
	expect -ex {nothing was changed} {} timeout fail
	expect eof {} timeout fail
	exit [lindex [wait] 3]"
	talk "spawn -noecho cove reset r
	expect y/N {} timeout fail
	send \"y\\r\"
	expect eof {} timeout fail
	exit [lindex [wait] 3]"
	cove rm r'
ok 'what takes longer than a second shows a line, and takes it away' '
	cove run -q -d slow --no-mounts -- sh -c "trap \"\" TERM; while :; do sleep 0.2; done"
	on_tty "cove stop --grace 2s slow"
	has "$(cat "$T/tty")" "stopping slow ..."
	same "" "$(sed "s/.*\x1b\[K//" "$T/tty" | tr -d "\r\n")"
	cove run -q slow -- true
	on_tty "cove stop slow"
	test ! -s "$T/tty"
	cove rm slow'
ok 'colours only on a terminal, and not with NO_COLOR' '
	cove create -q c --no-mounts
	on_tty "cove ls"; grep -q "$(printf "\033")" "$T/tty"
	on_tty "NO_COLOR=1 cove ls"; ! grep -q "$(printf "\033")" "$T/tty"
	! cove ls | grep -q "$(printf "\033")" || exit 1
	cove rm c'
done_testing
