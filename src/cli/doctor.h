/*
 * doctor.h - the checks of everfold doctor: problems, and the commands that fix them.
 */
#ifndef EF_CLI_DOCTOR_H
#define EF_CLI_DOCTOR_H

#include "cli.h"

typedef enum verdict { OK, WARN, FAIL } verdict;

typedef struct diagnosis {
    cli *c;
    ef__json_writer w;
    bool failed;
} diagnosis;

/* Reports one check. `fix` (may be NULL) is shown unless the verdict is OK. */
void doctor_report(diagnosis *d, verdict v, const char *check, const char *fix, const char *format,
                   ...) __attribute__((format(printf, 5, 6)));

/* Checks the projections: missing events, failures, pauses. The engine or the client is open. */
void doctor_check_projections(diagnosis *d);

#endif
