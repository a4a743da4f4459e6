/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/desc.h"

#include "base/util.h"

static void list_out(struct descs *all, const struct desc *d)
{
	*(d->newer ? &d->newer->older : &all->newest) = d->older;
	*(d->older ? &d->older->newer : &all->oldest) = d->newer;
}

static void list_in(struct descs *all, struct desc *d)
{
	d->newer = NULL;
	d->older = all->newest;
	*(d->older ? &d->older->newer : &all->oldest) = d;
	all->newest = d;
}

void desc_close(struct descs *all, struct desc *d)
{
	if (d->fd < 0)
		return;
	if (d->pinned)
		all->n_pinned--;
	else
		list_out(all, d);
	all->n--;
	close_fd(&d->fd);
	d->pinned = false;
}

bool desc_spare(struct descs *all)
{
	if (!all->oldest)
		return false;
	desc_close(all, all->oldest);
	return true;
}

void desc_set(struct descs *all, struct desc *d, int fd)
{
	desc_close(all, d);
	if (all->n >= all->max)
		desc_spare(all);
	d->fd = fd;
	list_in(all, d);
	all->n++;
}

void desc_used(struct descs *all, struct desc *d)
{
	if (d->pinned || all->newest == d)
		return;
	list_out(all, d);
	list_in(all, d);
}

void desc_keep(struct descs *all, struct desc *d)
{
	if (d->pinned)
		return;
	list_out(all, d);
	d->pinned = true;
	all->n_pinned++;
}

bool desc_pin(struct descs *all, struct desc *d)
{
	if (!d->pinned && all->n_pinned >= all->max / 2)
		return false;
	desc_keep(all, d);
	return true;
}

void desc_unpin(struct descs *all, struct desc *d)
{
	if (!d->pinned)
		return;
	d->pinned = false;
	all->n_pinned--;
	list_in(all, d);
}
