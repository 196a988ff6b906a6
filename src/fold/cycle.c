/*
 * cycle.c - programs that look into each other in a circle.
 */
#include "ast.h"

#include <stdlib.h>

/* unseen -> open -> done. One that is open and is met again closes a circle. */
enum { UNSEEN, OPEN, DONE };

typedef struct search {
    const ef__program *const *programs;
    size_t count;
    uint8_t *states;
    size_t *path;                    /* the open ones, from the first */
    const ef__lookup_name **lookups; /* of each in path: the next one to follow */
    size_t depth;
} search;

static size_t find_program(const search *s, ef_str name)
{
    for (size_t i = 0; i < s->count; i++)
        if (ef_str_equal(s->programs[i]->name, name))
            return i;
    return s->count;
}

static ef_status report(const search *s, size_t again, ef_error *err)
{
    ef__buf text = EF__BUF_INIT(4096);
    size_t from = 0;

    while (s->path[from] != again)
        from++;
    for (size_t i = from; i < s->depth; i++)
        ef__buf_printf(&text, "%.*s -> ", EF_STR_ARG(s->programs[s->path[i]]->name));
    ef_status st =
        ef_fail(err, EF_BAD_INPUT, "projections look into each other in a circle: %.*s%.*s",
                EF_STR_ARG(ef__buf_str(&text)), EF_STR_ARG(s->programs[again]->name));
    ef__buf_release(&text);
    return st;
}

static void enter(search *s, size_t i)
{
    s->states[i] = OPEN;
    s->path[s->depth] = i;
    s->lookups[s->depth] = s->programs[i]->lookups;
    s->depth++;
}

static ef_status search_from(search *s, size_t start, ef_error *err)
{
    enter(s, start);
    while (s->depth > 0) {
        const ef__lookup_name *lookup = s->lookups[s->depth - 1];

        if (!lookup) {
            s->states[s->path[--s->depth]] = DONE;
            continue;
        }
        s->lookups[s->depth - 1] = lookup->next;
        size_t next = find_program(s, lookup->name);
        if (next == s->count || s->states[next] == DONE)
            continue;
        if (s->states[next] == OPEN)
            return report(s, next, err);
        enter(s, next);
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
