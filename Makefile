# Cove: one Makefile. `make run`, `make test`, `make bench`, `make install PREFIX=/usr/local`.
# Variants: V=release (default) and V=asan; each has its own build directory.
V        ?= release
VERSION  := 0.1.0
PREFIX   ?= /usr/local
DESTDIR  ?=
CC       ?= gcc
MUSL     ?= musl-gcc
B        := build/$(V)

LIBDIR     := $(PREFIX)/lib
LIBEXECDIR := $(PREFIX)/libexec/cove

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 \
	-Wcast-qual -Wwrite-strings -Wpointer-arith -Wvla -Wundef -Werror
BASE := -std=gnu11 -D_GNU_SOURCE -Iinclude -Isrc -I$(B)/gen -include tools/banned.h -MMD -MP \
	-ffile-prefix-map=$(CURDIR)=. -DCOVE_VERSION='"$(VERSION)"' $(WARN)
HARDEN := -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
FUZZMODE := -DFUZZ_REPLAY
ifeq ($(V),fuzz) # libFuzzer targets only, see tools/fuzz.sh
CC       := clang
OPT      := -O1 -g -fno-omit-frame-pointer -Wno-error -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=undefined
LDSAN    := -fsanitize=address,undefined
FUZZMODE := -fsanitize=fuzzer
else ifeq ($(V),asan)
OPT    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LDSAN  := -fsanitize=address,undefined
STATIC :=
GUESTCC := $(CC)
GUESTFLAGS := $(OPT)
GUESTLD := $(LDSAN)
else
OPT    := $(HARDEN)
LDSAN  :=
STATIC := -static
PROGRAM_LIBC ?= musl
GUESTCC := $(MUSL)
GUESTFLAGS := -O2 -g -fstack-protector-strong -isystem $(B)/musl-include
GUESTLD := -static -Wl,--gc-sections
endif
CFLAGS := $(BASE) $(OPT) -fPIC -fvisibility=hidden \
	-DCOVE_LIBEXEC='"$(LIBEXECDIR)"'
LIBS   := -lyaml -ljansson -lsodium

src_of = $(sort $(wildcard $(1)))
LIB_SRC   := $(call src_of,$(foreach d,base policy os ipc spec text vm backend work core api,src/$(d)/*.c))
CLI_SRC   := $(call src_of,src/cli/*.c)
GUEST_SRC := $(call src_of,src/guest/*.c) src/base/buf.c src/base/io.c \
	$(addprefix src/ipc/,wire.c link.c netmux.c muxend.c muxstream.c) \
	$(addprefix src/os/,netcapture.c capture.c who.c proctree.c)
UNIT_SRC  := $(call src_of,tests/unit/*.c)
FUZZ_SRC  := $(call src_of,tests/fuzz/*.c)

LIB_OBJ   := $(LIB_SRC:%.c=$(B)/%.o)
GUEST_OBJ := $(GUEST_SRC:%.c=$(B)/guestobj/%.o)
UNIT_BIN  := $(UNIT_SRC:tests/unit/%.c=$(B)/unit/%)
FUZZ_BIN  := $(FUZZ_SRC:tests/fuzz/%.c=$(B)/fuzz/%)

# What every command starts is linked with musl: static glibc executes about a hundred CPUID
# instructions before main(), which a hypervisor traps one by one (0.4 ms), and a keeper of
# musl takes 0.4 MiB instead of 1.1. libcove is for other programs and stays with their libc.
# PROGRAM_LIBC=glibc, and every variant but release, link the programs with libcove.a instead.
ifeq ($(PROGRAM_LIBC),musl)
PROG      := $(B)/muslobj
PROGLIB   := $(LIB_SRC:%.c=$(PROG)/%.o) $(PROG)/tools/musl-compat.o
PROGFLAGS := -O2 -g -fstack-protector-strong -fstack-clash-protection -fvisibility=hidden \
	-ffunction-sections -fdata-sections -isystem $(B)/musl-include -DCOVE_LIBEXEC='"$(LIBEXECDIR)"'
PROGLINK  := $(MUSL) -static -Wl,--gc-sections
PROGLIBS   = $(foreach l,$(LIBS:-l%=lib%.a),$(shell $(CC) -print-file-name=$(l)))
else
PROG      := $(B)
PROGLIB   := $(B)/libcove.a
PROGLINK  := $(CC) $(STATIC) $(LDSAN)
PROGLIBS   = $(LIBS)
endif
CLI_OBJ    := $(CLI_SRC:%.c=$(PROG)/%.o)
KEEPER_OBJ := $(PROG)/src/roles/keeper.o

# The secret scanner: a program of its own, with libraries of its own. Static, as starting
# it with a dozen shared libraries would take ten milliseconds.
SCAN_SRC := $(call src_of,src/scan/*.c)
SCAN_OBJ := $(SCAN_SRC:%.c=$(B)/%.o)
HYPERSCAN := $(shell pkg-config --exists libhs && echo -DSCAN_HYPERSCAN)
SCAN_LIBS := $(if $(HYPERSCAN),-lhs) -lpcre2-8 -larchive -lsodium
ifneq ($(STATIC),)
SCAN_LINK := -static-pie
SCAN_LIBS += -lz -llzma -lbz2 -lzstd -lnettle
endif
SCAN_LIBS += $(if $(HYPERSCAN),-lstdc++) -lm

# The network role: OpenSSL and c-ares are linked to it and to nothing else.
EGRESS_SRC := $(call src_of,src/egress/*.c)
EGRESS_OBJ := $(EGRESS_SRC:%.c=$(B)/%.o)
EGRESS_LIBS := -lssl -lcrypto -lcares -ljansson -lsodium
EGRESS_LINK := $(if $(STATIC),-static-pie)

# The reader of archives that may be anybody's.
UNPACK_OBJ := $(PROG)/src/roles/unpack.o $(PROG)/src/roles/unpack_file.o

# The reader of tar files of any kind: libarchive, as in cove-scan.
UNTAR_OBJ := $(addprefix $(B)/src/roles/,untar.o untar_run.o untar_file.o)
UNTAR_LIBS := -larchive $(if $(STATIC),-lz -llzma -lbz2 -lzstd -lnettle)

# The first process of a machine's namespaces.
VMM_OBJ := $(PROG)/src/roles/vmm.o $(PROG)/src/roles/vmm_open.o

# The files of a virtual machine.
FS_SRC := $(call src_of,src/fs/*.c)
FS_OBJ := $(addprefix $(PROG)/,$(FS_SRC:.c=.o) src/roles/fs.o src/base/io.o src/base/buf.o src/os/confine.o src/os/landlock.o)

BINS := $(B)/cove $(B)/cove-keeper $(B)/cove-guest $(B)/cove-scan $(B)/cove-unpack $(B)/cove-egress \
	$(B)/cove-vmm $(B)/cove-fs $(B)/cove-untar
LIBSO := $(B)/libcove.so.1

all: $(BINS) $(LIBSO) $(B)/libcove.a $(B)/embed

# ---- set-up: what the build and the tests need, from Debian only --------------------
setup:
	@tools/setup.sh
setup-test:
	@tools/setup.sh test
setup-bench:
	@tools/setup.sh bench
setup-kvm:
	@tools/setup.sh kvm

# ---- generated: the seccomp filter, as a BPF program compiled in ---------------------
$(B)/tools/seccomp-gen: tools/seccomp-gen.c tools/seccomp-policy.c tools/bpf-asm.c \
		tools/seccomp-policy.h tools/bpf-asm.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror $(filter %.c,$^) -o $@ -lseccomp -lsodium
$(B)/gen/seccomp_guest.h: src/os/guest.seccomp $(B)/tools/seccomp-gen
	@mkdir -p $(@D)
	$(B)/tools/seccomp-gen $< > $@.tmp && mv $@.tmp $@
$(B)/gen/seccomp_scan.h: src/roles/scan.seccomp $(B)/tools/seccomp-gen
	@mkdir -p $(@D)
	$(B)/tools/seccomp-gen $< > $@.tmp && sed "s/guest/scan/g;s/GUEST/SCAN/g" $@.tmp > $@ && rm $@.tmp
$(B)/gen/seccomp_unpack.h: src/roles/unpack.seccomp $(B)/tools/seccomp-gen
	@mkdir -p $(@D)
	$(B)/tools/seccomp-gen $< > $@.tmp && sed "s/guest/unpack/g;s/GUEST/UNPACK/g" $@.tmp > $@ && rm $@.tmp
$(B)/gen/seccomp_untar.h: src/roles/untar.seccomp $(B)/tools/seccomp-gen
	@mkdir -p $(@D)
	$(B)/tools/seccomp-gen $< > $@.tmp && sed "s/guest/untar/g;s/GUEST/UNTAR/g" $@.tmp > $@ && rm $@.tmp
$(B)/gen/seccomp_monitor.h: src/vm/monitor.seccomp $(B)/tools/seccomp-gen
	@mkdir -p $(@D)
	$(B)/tools/seccomp-gen $< > $@.tmp && sed "s/guest/monitor/g;s/GUEST/MONITOR/g" $@.tmp > $@ && rm $@.tmp
$(B)/gen/seccomp_fs.h: src/roles/fs.seccomp $(B)/tools/seccomp-gen
	@mkdir -p $(@D)
	$(B)/tools/seccomp-gen $< > $@.tmp && sed "s/guest/fs/g;s/GUEST/FS/g" $@.tmp > $@ && rm $@.tmp
GENERATED := $(B)/gen/seccomp_guest.h $(B)/gen/seccomp_monitor.h
$(LIB_OBJ) $(filter %.o,$(PROGLIB)): | $(GENERATED)

# ---- objects ------------------------------------------------------------------------
$(B)/%.o: %.c $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c $< -o $@
$(B)/guestobj/%.o: %.c $(B)/.flags | $(B)/musl-include/.made
	@mkdir -p $(@D)
	$(GUESTCC) $(BASE) $(GUESTFLAGS) -ffunction-sections -DCOVE_GUEST -c $< -o $@
$(B)/muslobj/%.o: %.c $(B)/.flags | $(B)/musl-include/.made
	@mkdir -p $(@D)
	$(MUSL) $(BASE) $(PROGFLAGS) -c $< -o $@
# musl-gcc sees only musl's headers; those of the kernel and of our libraries come in by name.
MUSL_NEEDS := linux asm-generic asm jansson.h jansson_config.h yaml.h sodium.h sodium
$(B)/musl-include/.made: Makefile
	@mkdir -p $(@D)
	@for h in $(MUSL_NEEDS); do \
		for d in /usr/include/$$($(CC) -dumpmachine) /usr/include; do \
			test ! -e $$d/$$h || { ln -sfn $$d/$$h $(@D)/$$h; break; }; \
		done; \
		test -e $(@D)/$$h || { echo "$$h: not found; make setup installs what the build needs" >&2; exit 1; }; \
	done
	@touch $@
# A change of flags rebuilds.
FLAGS = $(CC) $(CFLAGS) $(GUESTCC) $(GUESTFLAGS) $(PROGLINK) $(PROGFLAGS)
$(B)/.flags: FORCE
	@mkdir -p $(@D)
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@
FORCE:

# ---- the secret scanner: its rules are checked and compiled at build time ---------------
SCAN_GEN := $(addprefix src/scan/,pool.c toml.c toml_scalar.c \
	re.c re_parse.c re_class.c re_set.c pattern.c rules.c) src/base/buf.c src/base/error.c src/base/io.c
$(B)/tools/scan-db-gen: tools/scan-db-gen.c $(SCAN_GEN) $(wildcard src/scan/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror $(HYPERSCAN) -Iinclude -Isrc \
		$(filter %.c,$^) -o $@ $(if $(HYPERSCAN),-lhs) -lpcre2-8
$(B)/gen/scan_db.h: rules/secrets.toml $(B)/tools/scan-db-gen
	@mkdir -p $(@D)
	$(B)/tools/scan-db-gen $< $(@D)
$(B)/src/scan/fast.o: $(B)/gen/scan_db.h
$(B)/src/scan/builtin.o: rules/secrets.toml
$(sort $(B)/src/vm/kernel_build.o $(PROG)/src/vm/kernel_build.o): src/vm/kernel.config
$(SCAN_OBJ): CFLAGS += $(HYPERSCAN)
$(B)/src/roles/scan.o: | $(B)/gen/seccomp_scan.h
$(B)/libscan.a: $(SCAN_OBJ)
	@rm -f $@
	$(AR) rcsD $@ $^
$(B)/cove-scan: $(B)/src/roles/scan.o $(B)/libscan.a \
		$(addprefix $(B)/src/,base/buf.o base/error.o base/io.o os/confine.o os/landlock.o)
	$(CC) $(SCAN_LINK) $(LDSAN) $^ $(SCAN_LIBS) -o $@

# ---- the network role ------------------------------------------------------------------
$(B)/gen/seccomp_egress.h: src/roles/egress.seccomp $(B)/tools/seccomp-gen
	@mkdir -p $(@D)
	$(B)/tools/seccomp-gen $< > $@.tmp && sed "s/guest/egress/g;s/GUEST/EGRESS/g" $@.tmp > $@ && rm $@.tmp
$(B)/src/roles/egress.o: | $(B)/gen/seccomp_egress.h
$(B)/libegress.a: $(EGRESS_OBJ)
	@rm -f $@
	$(AR) rcsD $@ $^
$(B)/cove-egress: $(B)/src/roles/egress.o $(B)/libegress.a \
		$(patsubst src/%.c,$(B)/src/%.o,$(call src_of,src/policy/*.c src/base/*.c)) $(addprefix $(B)/src/os/,confine.o landlock.o) \
		$(addprefix $(B)/src/ipc/,wire.o netmux.o muxend.o muxstream.o)
	$(CC) $(EGRESS_LINK) $(LDSAN) $^ $(EGRESS_LIBS) -o $@

# ---- libraries and programs ----------------------------------------------------------
$(B)/libcove.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcsD $@ $^
$(LIBSO): $(LIB_OBJ)
	$(CC) -shared -Wl,-soname,libcove.so.1 -Wl,-z,relro,-z,now -Wl,--no-undefined $(LDSAN) $^ $(LIBS) -o $@
	@ln -sfn libcove.so.1 $(B)/libcove.so
$(B)/cove: $(CLI_OBJ) $(PROGLIB)
	$(PROGLINK) $^ $(PROGLIBS) -o $@
$(B)/cove-keeper: $(KEEPER_OBJ) $(PROGLIB)
	$(PROGLINK) $^ $(PROGLIBS) -o $@
$(UNPACK_OBJ): | $(B)/gen/seccomp_unpack.h
$(B)/cove-vmm: $(VMM_OBJ)
	$(PROGLINK) $^ -o $@
$(B)/cove-unpack: $(UNPACK_OBJ) $(PROGLIB)
	$(PROGLINK) $^ $(PROGLIBS) -o $@
$(UNTAR_OBJ): | $(B)/gen/seccomp_untar.h
$(B)/cove-untar: $(UNTAR_OBJ) $(addprefix $(B)/src/,base/buf.o base/io.o os/confine.o os/landlock.o)
	$(CC) $(SCAN_LINK) $(LDSAN) $^ $(UNTAR_LIBS) -o $@
$(PROG)/src/roles/fs.o: | $(B)/gen/seccomp_fs.h
$(B)/cove-fs: $(FS_OBJ)
	$(PROGLINK) $^ -o $@
$(B)/libfs.a: $(FS_SRC:%.c=$(B)/%.o) $(B)/src/base/io.o $(B)/src/base/buf.o
	@rm -f $@
	$(AR) rcsD $@ $^
$(B)/cove-guest: $(GUEST_OBJ)
	$(GUESTCC) $(GUESTLD) $^ -o $@
$(B)/embed: examples/embed.c $(LIBSO)
	$(CC) -std=c99 -pedantic -Wall -Wextra -Werror -Iinclude $(LDSAN) $< -L$(B) -lcove -Wl,-rpath,'$$ORIGIN' -o $@

# ---- tests -----------------------------------------------------------------------------
$(B)/unit/%: tests/unit/%.c $(B)/libcove.a tests/lib/tap.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests/lib $< $(B)/libcove.a $(LDSAN) $(LIBS) -lseccomp -o $@
$(B)/unit/scan%: tests/unit/scan%.c $(B)/libscan.a $(B)/libcove.a tests/lib/tap.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests/lib $< $(B)/libscan.a $(B)/libcove.a $(LDSAN) $(LIBS) $(SCAN_LIBS) -o $@
$(B)/unit/egress%: tests/unit/egress%.c $(B)/libegress.a $(B)/libcove.a tests/lib/tap.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests/lib $< $(B)/libegress.a $(B)/libcove.a $(LDSAN) $(LIBS) $(EGRESS_LIBS) -o $@
# Those that play a machine's network have the guest's end of it in them.
NETPUMP_OBJ := $(addprefix $(B)/src/guest/,netpump.o netwho.o)
$(B)/unit/egress_mux $(B)/unit/egress_edge_machine: $(B)/unit/%: tests/unit/%.c $(NETPUMP_OBJ) \
		$(B)/libegress.a $(B)/libcove.a tests/lib/tap.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests/lib $< $(NETPUMP_OBJ) $(B)/libegress.a $(B)/libcove.a $(LDSAN) $(LIBS) \
		$(EGRESS_LIBS) -o $@
$(B)/unit/machine_net: tests/unit/machine_net.c $(NETPUMP_OBJ) $(B)/libcove.a $(B)/cove-egress tests/lib/tap.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests/lib $< $(NETPUMP_OBJ) $(B)/libcove.a $(LDSAN) $(LIBS) -o $@
$(B)/unit/fs_%: tests/unit/fs_%.c $(B)/libfs.a tests/lib/tap.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests/lib $< $(B)/libfs.a $(LDSAN) -o $@
# Fuzz targets replay their corpus under any compiler; `make fuzz` builds them for libFuzzer.
$(B)/fuzz/%: tests/fuzz/%.c tests/lib/fuzz.h $(B)/libcove.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FUZZMODE) -Itests/lib $< $(B)/libcove.a $(LDSAN) $(LIBS) -o $@
$(B)/fuzz/toml $(B)/fuzz/scan: $(B)/fuzz/%: tests/fuzz/%.c tests/lib/fuzz.h $(B)/libscan.a $(B)/libcove.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FUZZMODE) -Itests/lib $< $(B)/libscan.a $(B)/libcove.a $(LDSAN) $(LIBS) $(SCAN_LIBS) -o $@
$(B)/fuzz/fs_%: tests/fuzz/fs_%.c tests/lib/fuzz.h $(B)/libfs.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FUZZMODE) -Itests/lib $< $(B)/libfs.a $(LDSAN) -o $@
$(B)/fuzz/egress%: tests/fuzz/egress%.c tests/lib/fuzz.h $(B)/libegress.a $(B)/libcove.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FUZZMODE) -Itests/lib $< $(B)/libegress.a $(B)/libcove.a $(LDSAN) $(LIBS) $(EGRESS_LIBS) -o $@
$(B)/fuzz/untar: tests/fuzz/untar.c tests/lib/fuzz.h $(filter-out %/untar.o,$(UNTAR_OBJ)) $(B)/libcove.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FUZZMODE) -Itests/lib $< $(filter %.o,$^) $(B)/libcove.a $(LDSAN) $(UNTAR_LIBS) -o $@
FUZZ_SECONDS ?= 60
fuzz:
	@tools/fuzz.sh $(FUZZ_SECONDS)

# Attack programs run inside the sandbox, so they are static and need nothing of it; the
# reaper runs every script test and sees what it leaves behind.
ESCAPE_SRC := $(call src_of,tests/escape/attack*.c)
$(B)/escape/attack: $(ESCAPE_SRC) tests/escape/attack.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g $(WARN) -Itests/escape -static $(ESCAPE_SRC) -o $@
$(B)/escape/evil-guest: tests/escape/evil_guest.c tests/escape/evil_machine.c tests/escape/evil_guest.h \
		src/ipc/wire.c src/ipc/wire.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g $(WARN) -Isrc -Itests/escape -static $(filter %.c,$^) -o $@
$(B)/escape/reaper: tests/lib/reaper.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g $(WARN) -static $< -o $@
# inject stops or fails a command at one of its system calls; mutate makes, changes and
# compares trees, inside and outside.
$(B)/escape/inject: tests/lib/inject.c tests/lib/inject_calls.def
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g $(WARN) -static $< -o $@
MUTATE_SRC := $(call src_of,tests/lib/mutate*.c)
$(B)/escape/mutate: $(MUTATE_SRC) tests/lib/mutate.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g $(WARN) -static $(MUTATE_SRC) -o $@
# fs_mount mounts a directory of this host through cove-fs and the guest's pump; fs_torture
# is what it then has to bear.
$(B)/escape/fs_mount: tests/lib/fs_mount.c src/guest/fusepump.c src/guest/fusehear.c src/guest/fusewindow.c \
	src/guest/watched.c src/base/io.c src/base/buf.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g $(WARN) -Isrc -Iinclude -pthread $(filter %.c,$^) -o $@
# The first program of a machine that tries an installed kernel; static, with what installs it.
PROBE_SRC := tests/lib/machine_probe.c $(call src_of,src/vm/kernel*.c src/vm/modules*.c) \
	$(addprefix src/,vm/cpio.c vm/initramfs.c base/buf.c base/error.c base/io.c os/treewalk.c \
	os/reach.c os/netcapture.c os/capture.c)
$(B)/escape/machine-probe: $(PROBE_SRC) $(wildcard src/vm/*.h src/os/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g $(WARN) -Iinclude -Isrc -static $(PROBE_SRC) -ljansson -lsodium -o $@
$(B)/escape/fs_listen: tests/lib/fs_listen.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g $(WARN) -static $< -o $@
$(B)/escape/fs_torture: tests/lib/fs_torture.c tests/lib/tap.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g $(WARN) -Itests/lib -static $< -o $@
$(B)/escape/fs_hostile: tests/lib/fs_hostile.c tests/lib/tap.h tests/lib/fs_message.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g $(WARN) -Itests/lib -Isrc $< -o $@
TOOL_BIN := $(B)/escape/fs_mount $(B)/escape/fs_listen $(B)/escape/fs_torture $(B)/escape/fs_hostile $(B)/escape/attack $(B)/escape/evil-guest $(B)/escape/reaper $(B)/escape/inject \
	$(B)/escape/mutate $(B)/escape/machine-probe

fuzz-bin: $(FUZZ_BIN)
tests-bin: $(UNIT_BIN) $(FUZZ_BIN) $(TOOL_BIN)

test: setup-test
	@tools/test.sh

# The nested machine: emulated, but with a /dev/kvm that runs ordinary guests (docs/nested.md).
N := $(B)/nested
NESTED_MODULES := virtio_pci virtio_blk virtio_console virtio_rng virtiofs overlay kvm_amd fuse \
	erofs loop tun nf_tables nft_tproxy vhost_vsock
$(N)/vmlinuz:
	@tools/nested/kernel.sh $(@D)
# There or not: without it the installed one does.
$(N)/qemu:
	@tools/nested/qemu.sh $(@D)
$(N)/init: tools/nested/init.c
	@mkdir -p $(@D)
	$(MUSL) -std=gnu11 -D_GNU_SOURCE -O2 $(WARN) -static $< -o $@
$(N)/tsc: tools/nested/tsc.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 $(WARN) -static $< -o $@
$(N)/initramfs: $(N)/init $(N)/vmlinuz tools/nested/initramfs.py Makefile
	tools/nested/initramfs.py $@ $< $(N)/modules $(NESTED_MODULES)
# A guest for QEMU in there, and the probe of /dev/kvm as a command.
$(N)/hello: tests/nested/hello.c
	@mkdir -p $(@D)
	$(MUSL) -std=gnu11 -D_GNU_SOURCE -O2 $(WARN) -static $< -o $@
$(N)/hello.cpio: $(N)/hello tools/nested/initramfs.py
	tools/nested/initramfs.py $@ $<
$(N)/probe: tests/nested/probe.c $(call src_of,src/vm/kvm_probe*.c src/vm/kvm_probe*.h)
	@mkdir -p $(@D)
	$(CC) $(BASE) -O2 -g -static $(filter %.c,$^) -o $@
nested: $(addprefix $(N)/,vmlinuz qemu initramfs tsc hello.cpio probe)

test-kvm:
	@skip() { printf 'skipped: the nested machine: %s\n0 passed, 0 failed, 1 skipped\n' "$$*"; exit 0; }; \
	why=$$(tools/nested/can.sh) || skip "$$why"; \
	tools/setup.sh kvm && $(MAKE) --no-print-directory -s all $(TOOL_BIN) || exit 1; \
	$(MAKE) --no-print-directory -s $(N)/vmlinuz || skip 'its kernel cannot be fetched'; \
	$(MAKE) --no-print-directory -s nested && MINUTES='$(MINUTES)' FULL='$(FULL)' tools/nested/test.py $(B) $(SCRIPTS)

bench: setup-bench all
	@bench/run.sh
# Those of virtual machines, where there is a /dev/kvm.
bench-kvm: setup-bench all
	@tools/nested/can.sh && tools/setup.sh kvm && $(MAKE) --no-print-directory -s nested && COVE_BUILD=$(B) bench/kvm.sh $(TOPICS)

# ---- use ---------------------------------------------------------------------------------
run: setup
	@$(MAKE) --no-print-directory -s all
	@if [ -n "$$CMD" ]; then exec $(B)/cove run -- sh -c "$$CMD"; else exec tools/tour.sh $(B)/cove; fi
export CMD

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(LIBDIR)/pkgconfig \
		$(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man5 \
		$(DESTDIR)$(PREFIX)/share/cove $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 755 $(B)/cove $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(B)/cove-keeper $(B)/cove-guest $(B)/cove-scan $(B)/cove-unpack $(B)/cove-vmm \
		$(B)/cove-egress $(B)/cove-fs $(B)/cove-untar $(DESTDIR)$(LIBEXECDIR)/
	install -m 644 $(B)/libcove.a $(DESTDIR)$(LIBDIR)/
	install -m 755 $(LIBSO) $(DESTDIR)$(LIBDIR)/
	ln -sfn libcove.so.1 $(DESTDIR)$(LIBDIR)/libcove.so
	install -m 644 include/cove.h $(DESTDIR)$(PREFIX)/include/
	install -m 644 docs/spec.schema.json rules/secrets.toml $(DESTDIR)$(PREFIX)/share/cove/
	sed 's|@PREFIX@|$(PREFIX)|;s|@VERSION@|$(VERSION)|' tools/cove.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/cove.pc
	install -m 644 man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -m 644 man/*.5 $(DESTDIR)$(PREFIX)/share/man/man5/
	$(B)/cove completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/cove
	$(B)/cove completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_cove
	$(B)/cove completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/cove.fish

clean:
	rm -rf build

.PHONY: all setup setup-test setup-bench setup-kvm nested test test-kvm tests-bin fuzz-bin bench bench-kvm run install clean fuzz FORCE
-include $(FS_OBJ:.o=.d) $(FS_SRC:%.c=$(B)/%.d) $(LIB_OBJ:.o=.d) $(SCAN_OBJ:.o=.d) $(EGRESS_OBJ:.o=.d) $(B)/src/roles/scan.d $(B)/src/roles/egress.d $(UNPACK_OBJ:.o=.d) $(UNTAR_OBJ:.o=.d) $(VMM_OBJ:.o=.d) $(patsubst %.o,%.d,$(filter %.o,$(PROGLIB))) $(CLI_OBJ:.o=.d) $(KEEPER_OBJ:.o=.d) $(GUEST_OBJ:.o=.d) $(UNIT_BIN:%=%.d) $(FUZZ_BIN:%=%.d)
