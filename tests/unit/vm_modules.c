/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and packages: names, .modinfo, signatures, dependencies, the tar and ar formats
 * around a kernel. */
#include "base/util.h"
#include "tap.h"
#include "vm/kernel_package.h"
#include "vm/modules.h"

#include <elf.h>

/* ---- names --------------------------------------------------------------------- */

static void names_are_found(void)
{
	char name[MODULE_NAME_MAX + 1];
	enum module_packing packing;
	static const struct {
		const char *path, *name;
		enum module_packing packing;
	} good[] = {
		{"kernel/drivers/char/hw_random/virtio-rng.ko", "virtio_rng",
		 MODULE_PLAIN							    },
		{"fuse.ko.xz",				  "fuse",       MODULE_XZ  },
		{"a/b.ko.zst",				  "b",          MODULE_ZSTD},
		{"b.ko.gz",				     "b",          MODULE_GZIP},
	};
	static const char *const bad[] = {"",    ".ko",    "a/.ko",  "a.ko.bz2",
					  "a.k", "a b.ko", "a\n.ko", "a.ko/b"};

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		OK(module_name(good[i].path, strlen(good[i].path), name, &packing) &&
			   strcmp(name, good[i].name) == 0 && packing == good[i].packing,
		   "%s is %s", good[i].path, good[i].name);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		OK(!module_name(bad[i], strlen(bad[i]), name, &packing), "no module: %zu",
		   i);
}

static void built_in_is_known(void)
{
	static const char list[] = "kernel/fs/ext4/ext4.ko\nkernel/lib/crc-ccitt.ko";
	size_t n = sizeof(list) - 1;

	OK(module_listed(list, n, "ext4") && module_listed(list, n, "crc_ccitt"),
	   "by name, whatever the dashes, and without a last line break");
	OK(!module_listed(list, n, "ext") && !module_listed(list, n, "4") &&
		   !module_listed(list, 0, "ext4"),
	   "and no other");
}

/* ---- a module ------------------------------------------------------------------ */

#define STRINGS 400

/* A relocatable ELF file with nothing but .modinfo in it. */
struct fake {
	Elf64_Ehdr head;
	char names[24]; /* "\0.modinfo\0.shstrtab\0" */
	char info[STRINGS];
	Elf64_Shdr section[3];
	char signature[300];
};

static size_t make(struct fake *f, const char *depends, const char *softdep)
{
	size_t n = 0;

	*f = (struct fake){
		.head = {.e_type = ET_REL,
			 .e_shoff = offsetof(struct fake, section),
			 .e_shnum = 3,
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shstrndx = 2}
        };
	memcpy(f->head.e_ident, ELFMAG, SELFMAG);
	f->head.e_ident[EI_CLASS] = ELFCLASS64;
	f->head.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(f->names, "\0.modinfo\0.shstrtab", 20);
	n += (size_t)snprintf(f->info, STRINGS, "license=GPL") + 1;
	if (softdep)
		n += (size_t)snprintf(f->info + n, STRINGS - n, "softdep=%s", softdep) +
		     1;
	n += (size_t)snprintf(f->info + n, STRINGS - n, "depends=%s", depends) + 1;
	f->section[1] = (Elf64_Shdr){.sh_name = 1,
				     .sh_type = SHT_PROGBITS,
				     .sh_offset = offsetof(struct fake, info),
				     .sh_size = n};
	f->section[2] = (Elf64_Shdr){.sh_name = 10,
				     .sh_type = SHT_STRTAB,
				     .sh_offset = offsetof(struct fake, names),
				     .sh_size = sizeof(f->names)};
	return offsetof(struct fake, signature);
}

static void modinfo_is_read(void)
{
	struct fake f;
	size_t n = make(&f, "a,b", NULL), len, pos = 0;
	const char *info, *value;

	OK(modinfo_find(&f, n, &info, &len) == 0, "the section is found");
	value = modinfo_next(info, len, &pos, "depends");
	OK(value && strcmp(value, "a,b") == 0, "a value");
	OK(!modinfo_next(info, len, &pos, "depends") && pos == len, "no second one");
	pos = 0;
	OK(!modinfo_next(info, len, &pos, "depend"), "a key is a whole word");
	pos = 0;
	OK(!modinfo_next(info, len - 1, &pos, "depends"), "a string without its end");
}

static void broken_modules_are_refused(void)
{
	const char *info;
	struct fake f;
	size_t n = make(&f, "", NULL), len;

	for (size_t cut = 0; cut < n; cut++)
		if (modinfo_find(&f, cut, &info, &len) == 0)
			OK(false, "cut at %zu", cut);
	OK(true, "cut anywhere");
	f.section[1].sh_offset = n + 1;
	OK(modinfo_find(&f, n, &info, &len) < 0, "a section outside");
	f.section[1].sh_offset = UINT64_MAX;
	OK(modinfo_find(&f, n, &info, &len) < 0, "an offset that wraps");
	make(&f, "", NULL);
	f.section[1].sh_name = UINT32_MAX;
	OK(modinfo_find(&f, n, &info, &len) < 0, "a name outside");
	make(&f, "", NULL);
	f.head.e_shstrndx = 3;
	OK(modinfo_find(&f, n, &info, &len) < 0, "an index outside");
	make(&f, "", NULL);
	f.head.e_ident[EI_CLASS] = ELFCLASS32;
	OK(modinfo_find(&f, n, &info, &len) < 0, "another kind of file");
}

static size_t sign(struct fake *f, size_t n, uint32_t signature)
{
	static const char mark[] = "~Module signature appended~\n";
	uint8_t *p = (uint8_t *)f + n + 100;

	memset(p, 0, 8);
	for (int i = 0; i < 4; i++)
		p[8 + i] = (uint8_t)(signature >> (24 - 8 * i));
	memcpy(p + 12, mark, sizeof(mark) - 1);
	return n + 100 + 12 + sizeof(mark) - 1;
}

static void signatures_are_cut(void)
{
	struct fake f;
	size_t n = make(&f, "", NULL), signed_n;

	OK(module_unsigned_size(&f, n) == n, "one without stays as it is");
	signed_n = sign(&f, n, 100);
	OK(module_unsigned_size(&f, signed_n) == n, "one with loses it");
	OK(module_unsigned_size(&f, signed_n - 1) == signed_n - 1, "one that is cut off");
	signed_n = sign(&f, n, UINT32_MAX);
	OK(module_unsigned_size(&f, signed_n) == signed_n, "a length that cannot be");
	OK(module_unsigned_size("", 0) == 0, "nothing at all");
}

/* ---- dependencies -------------------------------------------------------------- */

static const struct row {
	const char *name, *depends, *softdep;
} * rows;
static const char *built_in_name;

static int read_row(void *arg, const char *name, struct buf *out, struct cove_error *err)
{
	struct fake f;

	(void)arg;
	(void)err;
	for (const struct row *r = rows; r->name; r++)
		if (strcmp(r->name, name) == 0) {
			size_t n = make(&f, r->depends, r->softdep);

			return buf_append(out, &f, n) == 0 ? 1 : COVE_ENOMEM;
		}
	return 0;
}

static bool row_built_in(void *arg, const char *name)
{
	(void)arg;
	return built_in_name && strcmp(name, built_in_name) == 0;
}

/* The order as one text, or the message. */
static const char *collect(const struct row *v, const char *built_in)
{
	const struct module_source source = {.read = read_row, .built_in = row_built_in};
	static char text[2000];
	struct cove_error err = {0};
	struct module_set set = {0};

	rows = v;
	built_in_name = built_in;
	text[0] = '\0';
	if (modules_collect(&set, &source, &err) < 0)
		snprintf(text, sizeof(text), "%s", err.msg);
	for (size_t i = 0; i < set.n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
			 i ? " " : "", set.v[i].name);
	module_set_clear(&set);
	return text;
}

#define MUSTS \
	{"virtio_console", "virtio", NULL}, {"virtio_blk", "virtio", NULL}, \
		{"fuse", "", NULL}, {"overlay", "", NULL}, {"ext4", "", NULL}, \
		{"nf_tables", "", NULL}, \
	{ \
		"nft_tproxy", "nf_tables", NULL \
	}

static void dependencies_come_first(void)
{
	static const struct row all[] = {
		MUSTS,
		{"virtio_mmio", "virtio,virtio-ring", NULL                         },
		{"virtio",      "",                   NULL                         },
		{"virtio_ring", "virtio",             "post: fuse"                 },
		{"erofs",       "libcrc32c",          NULL                         },
		{"libcrc32c",   "",                   "pre: crc32c no-such post: x"},
		{"crc32c",      "",                   NULL                         },
		{NULL,          NULL,                 NULL                         }
        };
	const char *text = collect(all, NULL);

	OK(strcmp(text, "virtio virtio_ring virtio_mmio virtio_console virtio_blk fuse "
			"overlay crc32c libcrc32c erofs ext4 nf_tables nft_tproxy") == 0,
	   "each after what it needs, once: %s", text);
	text = collect(all, "virtio");
	OK(strncmp(text, "virtio_ring virtio_mmio ", 24) == 0,
	   "without what is built in");
}

static void what_is_missing_is_told(void)
{
	static const struct row no_mmio[] = {
		MUSTS, {"virtio", "",   NULL},
                 {NULL,     NULL, NULL}
        };
	static const struct row half[] = {
		MUSTS,
		{"virtio",      "",          NULL},
		{"virtio_mmio", "virtio",    NULL},
		{"erofs",       "a,missing", NULL},
		{"a",           "",          NULL},
		{NULL,          NULL,        NULL}
        };
	static const struct row broken[] = {
		{"virtio_mmio", "missing", NULL},
                {NULL,          NULL,      NULL}
        };

	OK(strstr(collect(no_mmio, NULL), "no virtio_mmio"),
	   "one that a guest must have");
	OK(strstr(collect(broken, NULL), "no virtio_mmio"), "or what that needs");
	OK(!strstr(collect(half, NULL), "erofs") && !strstr(collect(half, NULL), " a "),
	   "one that it may have is left out, with what only it needs");
}

static void hostile_dependencies_end(void)
{
	static const struct row circle[] = {
		{"virtio_mmio", "a",           NULL},
		{"a",           "b",           NULL},
		{"b",           "virtio_mmio", NULL},
		{NULL,          NULL,          NULL}
        };
	static struct row deep[40];
	static char names[40][16];

	OK(strstr(collect(circle, NULL), "depends on itself"), "a circle");
	for (int i = 0; i < 40; i++)
		snprintf(names[i], sizeof(names[i]), "m%d", i);
	deep[0] = (struct row){"virtio_mmio", "m1", NULL};
	for (int i = 1; i < 39; i++)
		deep[i] = (struct row){names[i], names[i + 1], NULL};
	deep[39] = (struct row){0};
	OK(strstr(collect(deep, NULL), "too many dependencies"), "a long chain");
}

/* ---- archives ------------------------------------------------------------------ */

static void put_member(struct buf *b, const char *name, char type, const char *data,
		       bool gnu)
{
	char block[512] = {0};
	size_t n = strlen(data);
	unsigned sum = 0;

	snprintf(block, 100, "%s", name);
	snprintf(block + 100, 8, "%07o", 0644);
	snprintf(block + 124, 12, "%011o", (unsigned)n);
	block[156] = type;
	memcpy(block + 257, gnu ? "ustar  " : "ustar\00000", 8);
	memset(block + 148, ' ', 8);
	for (size_t i = 0; i < sizeof(block); i++)
		sum += (unsigned char)block[i];
	snprintf(block + 148, 8, "%06o", sum);
	buf_append(b, block, sizeof(block));
	buf_append(b, data, n);
	memset(block, 0, sizeof(block));
	if (n % 512)
		buf_append(b, block, 512 - n % 512);
}

static void tar_is_walked(void)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 20);
	char name[200], zeros[1024] = {0};
	struct tar_walk w;
	struct tar_file f;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	put_member(&b, "./", '5', "", true);
	put_member(&b, "./boot/a", '0', "first", true);
	put_member(&b, "././@LongLink", 'L', name, true);
	put_member(&b, "cut", '0', "second", true);
	put_member(&b, "link", '2', "", true);
	put_member(&b, "pax", 'x', "10 path=y\n", false);
	put_member(&b, "c", '\0', "", false);
	buf_append(&b, zeros, sizeof(zeros));
	w = (struct tar_walk){.data = (uint8_t *)b.data, .size = b.len};
	OK(tar_walk_next(&w, &f) == 1 && strcmp(f.path, "boot/a") == 0 && f.size == 5 &&
		   memcmp(f.data, "first", 5) == 0,
	   "a file");
	OK(tar_walk_next(&w, &f) == 1 && strcmp(f.path, name) == 0 && f.size == 6,
	   "one with a long name");
	OK(tar_walk_next(&w, &f) == 1 && strcmp(f.path, "c") == 0 && f.size == 0,
	   "what is no file is passed over");
	OK(tar_walk_next(&w, &f) == 0, "the end");
	b.data[512 + 3] ^= 1;
	w = (struct tar_walk){.data = (uint8_t *)b.data, .size = b.len};
	OK(tar_walk_next(&w, &f) == -EBADMSG, "a flipped bit");
	w = (struct tar_walk){.data = (uint8_t *)b.data, .size = 700};
	OK(tar_walk_next(&w, &f) == -EBADMSG, "an archive that is cut");
}

static void put_ar(struct buf *b, const char *name, const char *data)
{
	buf_printf(b, "%-16s%-12d%-6d%-6d%-8s%-10zu`\n%s%s", name, 0, 0, 0, "100644",
		   strlen(data), data, strlen(data) % 2 ? "\n" : "");
}

static void packages_are_opened(void)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 16);
	enum module_packing packing = MODULE_PLAIN;
	size_t at = 0, n = 0;
	int r;

	buf_puts(&b, "!<arch>\n");
	put_ar(&b, "debian-binary", "2.0\n");
	put_ar(&b, "control.tar.xz", "odd");
	put_ar(&b, "data.tar.zst", "tree");
	r = deb_find_tree((uint8_t *)b.data, b.len, &at, &n, &packing);
	OK(r == 0 && n == 4 && memcmp(b.data + at, "tree", 4) == 0 &&
		   packing == MODULE_ZSTD,
	   "the tree of a package");
	OK(deb_find_tree((uint8_t *)b.data, b.len - 2, &at, &n, &packing) < 0,
	   "a cut one");
	OK(deb_find_tree((uint8_t *)b.data, at - 61, &at, &n, &packing) < 0,
	   "one without a tree");
	OK(deb_find_tree((const uint8_t *)"hello", 5, &at, &n, &packing) < 0, "none");
}

static void images_are_known(void)
{
	uint8_t image[0x400] = {0};
	char version[KERNEL_VERSION_MAX + 1] = "";

	OK(!image_is_one(image, sizeof(image)), "zeros are no image");
	memcpy(image + 0x202, "HdrS", 4);
	image[0x20e] = 0x80;
	memcpy(image + 0x280, "6.1.0-test (someone) #1", 24);
	OK(image_is_one(image, sizeof(image)) &&
		   image_version(image, sizeof(image), version) &&
		   strcmp(version, "6.1.0-test") == 0,
	   "a bzImage and its version");
	image[0x20f] = 0xff;
	OK(!image_version(image, sizeof(image), version), "a version outside");
	memset(image, 0, sizeof(image));
	memcpy(image, ELFMAG, SELFMAG);
	image[EI_CLASS] = ELFCLASS64;
	memcpy(image + 0x300, "Linux version 6.2 (x)", 21);
	OK(image_version(image, sizeof(image), version) && strcmp(version, "6.2") == 0,
	   "an ELF file and its version");
	memset(image + 0x300, 'x', 0x100);
	memcpy(image + 0x300, "Linux version ", 14);
	OK(!image_version(image, sizeof(image), version), "a version without an end");
}

static void a_package_is_looked_through(void)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 20);
	struct cove_error err = {0};
	struct package p;
	char image[0x220] = {0};

	memset(image, 'x', sizeof(image) - 1);
	memcpy(image + 0x202, "HdrS", 4);
	put_member(&b, "./boot/vmlinuz-6.1", '0', image, true);
	put_member(&b, "./lib/modules/6.1/kernel/virtio-rng.ko", '0', "m", true);
	put_member(&b, "./usr/lib/modules/6.1/modules.builtin", '0', "kernel/ext4.ko\n",
		   true);
	put_member(&b, "./usr/share/doc/a.ko", '0', "no", true);
	OK(package_look(&p, (uint8_t *)b.data, b.len, &err) == 0, "a package");
	OK(strcmp(p.version, "6.1") == 0 && p.n_modules == 1 &&
		   strcmp(p.modules[0].name, "virtio_rng") == 0 &&
		   package_source(&p).built_in(&p, "ext4") &&
		   !package_source(&p).built_in(&p, "virtio_rng"),
	   "its image, its modules, what is built in");
	package_clear(&p);
	OK(package_look(&p, (uint8_t *)b.data + 1024 + 512, b.len - 1024 - 512, &err) <
			   0 &&
		   strstr(err.msg, "no kernel"),
	   "without an image: %s", err.msg);
	put_member(&b, "./boot/vmlinuz-6.2", '0', image, true);
	OK(package_look(&p, (uint8_t *)b.data, b.len, &err) < 0, "two images");
}

int main(void)
{
	names_are_found();
	built_in_is_known();
	modinfo_is_read();
	broken_modules_are_refused();
	signatures_are_cut();
	dependencies_come_first();
	what_is_missing_is_told();
	hostile_dependencies_end();
	tar_is_walked();
	packages_are_opened();
	images_are_known();
	a_package_is_looked_through();
	return tap_done();
}
