/*
 * name_suggestion.c - the error for a projection that does not exist, with the most similar name.
 */
#include "engine_priv.h"

#include "../base/settings.h"

#define NAMES_MAX 1000

static const char *nearest_name(const ef__generation_list *list, ef_str name, ef__arena *arena)
{
    const char **names = ef__arena_zalloc(arena, NAMES_MAX, sizeof *names);
    size_t count = 0;

    for (size_t i = 0; names && i < list->count && count < NAMES_MAX; i++) {
        const char *copy = list->items[i].state == EF__GENERATION_RETIRED
                               ? NULL
                               : ef__arena_copy(arena, list->items[i].name).ptr;
        if (copy)
            names[count++] = copy;
    }
    return names ? ef__suggest(name, names, count) : NULL;
}

ef_status ef__projection_unknown(ef_engine *engine, ef_str name, ef_error *err)
{
    ef__generation_list list = {0};
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    const char *near = NULL;

    if (ef__engine_generations(engine, (ef_str){0}, &list, NULL) == EF_OK)
        near = nearest_name(&list, name, &arena);
    if (near)
        (void)ef_fail(err, EF_NOT_FOUND, "not found: projection \"%.*s\"; did you mean \"%s\"?",
                      EF_STR_ARG(name), near);
    else
        (void)ef_fail(err, EF_NOT_FOUND, "not found: projection \"%.*s\"", EF_STR_ARG(name));
    ef_memory_release(&list.room);
    ef__arena_release(&arena);
    return EF_NOT_FOUND;
}
