/*
 * owner.h - ownership of files that root creates.
 *
 * An operator runs a command as root on the data directory of a service that has its own user.
 * Files that the command creates there must belong to that user, or the service could not open
 * them.
 */
#ifndef EF_BASE_OWNER_H
#define EF_BASE_OWNER_H

#include <stdbool.h>

/* As root: gives a file or directory that root owns to the owner of the directory it is in.
 * Otherwise does nothing. */
void ef__owner_inherit(const char *path);

#endif
