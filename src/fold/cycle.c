/*
 * cycle.c - finds cycles of programs that read each other by lookup.
 */
#include "ast.h"

#include <stdlib.h>

/* unseen -> open -> done. Reaching an open one again closes a cycle. */
enum { UNSEEN, OPEN, DONE };

typedef struct search {
    const ef__program *const *programs;
    size_t count;
    uint8_t *states;
    size_t *path;                    /* the open ones, from the first */
    const ef__lookup_name **lookups; /* of each in path: the next one to follow */
    size_t depth;
} search;

static size_t find_program(const search *search_state, ef_str name)
{
    for (size_t i = 0; i < search_state->count; i++)
        if (ef_str_equal(search_state->programs[i]->name, name))
            return i;
    return search_state->count;
}

static ef_status report_cycle(const search *search_state, size_t again, ef_error *err)
{
    ef__buf text = EF__BUF_INIT(4096);
    size_t from = 0;

    while (search_state->path[from] != again)
        from++;
    for (size_t i = from; i < search_state->depth; i++)
        ef__buf_printf(&text, "%.*s -> ",
                       EF_STR_ARG(search_state->programs[search_state->path[i]]->name));
    ef_status st =
        ef_fail(err, EF_BAD_INPUT, "projections look each other up in a cycle: %.*s%.*s",
                EF_STR_ARG(ef__buf_str(&text)), EF_STR_ARG(search_state->programs[again]->name));
    ef__buf_release(&text);
    return st;
}

static void push_program(search *search_state, size_t i)
{
    search_state->states[i] = OPEN;
    search_state->path[search_state->depth] = i;
    search_state->lookups[search_state->depth] = search_state->programs[i]->lookups;
    search_state->depth++;
}

static ef_status search_from(search *search_state, size_t start, ef_error *err)
{
    push_program(search_state, start);
    while (search_state->depth > 0) {
        const ef__lookup_name *lookup = search_state->lookups[search_state->depth - 1];

        if (!lookup) {
            search_state->states[search_state->path[--search_state->depth]] = DONE;
            continue;
        }
        search_state->lookups[search_state->depth - 1] = lookup->next;
        size_t next = find_program(search_state, lookup->name);
        if (next == search_state->count || search_state->states[next] == DONE)
            continue;
        if (search_state->states[next] == OPEN)
            return report_cycle(search_state, next, err);
        push_program(search_state, next);
    }
    return EF_OK;
}

ef_status ef__fold_check_cycles(const ef__program *const *programs, size_t count, ef_error *err)
{
    search s = {.programs = programs, .count = count};
    ef_status st = EF_OK;

    s.states = calloc(count + 1, sizeof *s.states);
    s.path = calloc(count + 1, sizeof *s.path);
    s.lookups = calloc(count + 1, sizeof *s.lookups);
    if (!s.states || !s.path || !s.lookups)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    for (size_t i = 0; i < count && st == EF_OK; i++)
        if (s.states[i] == UNSEEN)
            st = search_from(&s, i, err);
    free(s.states);
    free(s.path);
    free(s.lookups);
    return st;
}
