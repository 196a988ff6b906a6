/*
 * c_function.h - projections written in C: the functions that this process has registered, and
 * their programs.
 *
 * The program text of a C projection is "c projection NAME version N" with its indexes. It is
 * log-ordered: the queue never brings its events, so that a process without the function may
 * acknowledge outbox rows. A process that has the function compiles a program from that text, whose
 * events go to the function; a process without it ignores the generation.
 */
#ifndef EF_ENGINE_FUNCTION_H
#define EF_ENGINE_FUNCTION_H

#include "../views/views.h"

#include <everfold/fold.h>

/* A registered function, kept until the engine is closed. */
typedef struct ef__c_function {
    char *name;
    ef_c_projection projection; /* of its texts only the name is valid */
    struct ef__c_function *next;
} ef__c_function;

struct ef__program;

/* Is it written in C, without a function in this process? Locks the engine. */
bool ef__c_function_missing(ef_engine *engine, const ef__generation *generation);

bool ef__generation_in_c(const ef__generation *generation);

/* The program of a C generation with its function. The caller holds the engine's lock.
 * EF_UNSUPPORTED: the function is not registered. */
ef_status ef__c_function_compile(ef_engine *engine, const ef__generation *generation,
                                 struct ef__program **out, ef_error *err);

void ef__c_functions_release(ef__c_function *first);

#endif
