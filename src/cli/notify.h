/*
 * notify.h - the notification protocol of systemd: a datagram to a socket, and variables in the
 * environment. Without a service manager nothing is sent.
 */
#ifndef EF_CLI_NOTIFY_H
#define EF_CLI_NOTIFY_H

#include <everfold/status.h>

#include <stdbool.h>
#include <stdint.h>

/* Does a service manager expect notifications? */
bool cli_notify_wanted(void);
/* "READY=1\nSTATUS=…" */
void cli_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* RELOADING=1 with the time that the protocol asks for. READY=1 ends it. */
void cli_notify_reloading(void);
/* Interval in which the manager expects WATCHDOG=1; 0: it does not. */
int64_t cli_notify_watchdog_ms(void);
/* The listening socket passed by the manager; 0: none. EF_BAD_INPUT: more than one socket, or one
 * that does not listen. */
ef_status cli_notify_socket(int *out_fd, ef_error *err);

#endif
