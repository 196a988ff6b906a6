/*
 * public_address.h - which addresses a webhook or a broker may have.
 *
 * A client that configures one must not use Everfold to reach addresses that only this machine can
 * reach: the machine itself, the network around it, or the metadata service of a cloud. The check
 * is on the resolved address, not on the name.
 */
#ifndef EF_BUS_PUBLIC_ADDRESS_H
#define EF_BUS_PUBLIC_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Address families other than IPv4 and IPv6 are not public. */
bool ef__address_is_public(const struct sockaddr *address, socklen_t len);

#endif
