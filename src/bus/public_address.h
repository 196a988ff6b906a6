/*
 * public_address.h - which addresses a webhook or a broker may have.
 *
 * A client that names one must not reach through us what only we can reach: this machine, the
 * network around it, or a cloud's own services. The address is looked at, and not the name: it is
 * the very one that is connected to.
 */
#ifndef EF_BUS_PUBLIC_ADDRESS_H
#define EF_BUS_PUBLIC_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Is it a public address? Those of other families than the internet's are not. */
bool ef__address_is_public(const struct sockaddr *address, socklen_t len);

#endif
