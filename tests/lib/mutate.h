/* SPDX-License-Identifier: Apache-2.0 */
/* mutate - trees for tests: see mutate.c. */
#ifndef MUTATE_H
#define MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define PATH_SIZE 4096

struct entry {
	char *path; /* below the tree's top; the top itself is not listed */
	struct stat st;
};

struct tree {
	struct entry *v;
	size_t n;
};

/* mutate_tree.c: the tree below the working directory, sorted by path. Every function
 * here ends the program when something fails: a test that goes on proves nothing. */
void tree_read(struct tree *t, const char *top);
void tree_free(struct tree *t);
int manifest(const char *top);
_Noreturn void die(const char *what, const char *path);

/* mutate_file.c */
void put_file(const char *path, const char *data, size_t n, mode_t mode);
void copy_tree(const char *from, const char *to);
void remove_tree(const char *path);

/* mutate_edit.c */
int edit(uint64_t seed, unsigned long ops, bool links);
int make_tree(uint64_t seed, unsigned long files);

#endif
