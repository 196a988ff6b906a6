/*
 * notify.h - what a service manager is told, and what it hands over: systemd's protocol, which is a
 * datagram to a socket and two numbers in the environment. Without a manager nothing happens.
 */
#ifndef EF_CLI_NOTIFY_H
#define EF_CLI_NOTIFY_H

#include <everfold/status.h>

#include <stdbool.h>
#include <stdint.h>

/* Is there somebody to tell? */
bool cli_notify_wanted(void);
/* "READY=1\nSTATUS=…" */
void cli_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* RELOADING=1 with the time that the protocol asks for. READY=1 ends it. */
void cli_notify_reloading(void);
/* It wants a WATCHDOG=1 within this time; 0: it does not. */
int64_t cli_notify_watchdog_ms(void);
/* The socket that it listens on for us; 0: none. EF_BAD_INPUT: it hands over more than one, or
 * something that does not listen. */
ef_status cli_notify_socket(int *out_fd, ef_error *err);

#endif
