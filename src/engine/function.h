/*
 * function.h - projections written in C: which functions this process has, and the programs that
 * stand for them.
 *
 * A generation of a C projection has a program text that says so, "c projection NAME version N"
 * with its indexes. It is in the order of the log: the queue never brings its events, so a process
 * that lacks the function can drop the queue's rows without harm. What reads programs either has
 * the function (the program is compiled from that head, and its events go to the function) or
 * leaves the generation alone.
 */
#ifndef EF_ENGINE_FUNCTION_H
#define EF_ENGINE_FUNCTION_H

#include "../views/views.h"

#include <everfold/fold.h>

/* A function that was registered; kept for as long as the engine is open. */
typedef struct ef__function {
    char *name;
    ef_c_projection projection; /* its texts are not kept, but for the name */
    struct ef__function *next;
} ef__function;

struct ef__program;

/* Written in C, and this engine has not got the function. Takes the engine's lock. */
bool ef__function_missing(ef_engine *engine, const ef__generation *generation);

bool ef__generation_in_c(const ef__generation *generation);

/* The program of a generation in C, with its function. The engine's lock is held. EF_UNSUPPORTED:
 * it is not registered here. */
ef_status ef__function_compile(ef_engine *engine, const ef__generation *generation,
                               struct ef__program **out, ef_error *err);

void ef__functions_release(ef__function *first);

#endif
