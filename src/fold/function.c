/*
 * function.c - the table of functions, and finding one by its name.
 */
#include "function.h"

#include "../base/settings.h"

#define EF__FUNCTION_ROW(id, name, min, max, a, b, c, result, help, example)                       \
    {EF__FN_##id, name, min, max, {a, b, c}, result, help, example},
const ef__function ef__functions[EF__FN_COUNT_ALL] = {EF__FUNCTION_MAP(EF__FUNCTION_ROW)};
#undef EF__FUNCTION_ROW

const ef__function *ef__function_find(ef_str name)
{
    for (size_t i = 0; i < EF__FN_COUNT_ALL; i++)
        if (ef_str_equal(name, ef_str_from(ef__functions[i].name)))
            return &ef__functions[i];
    return NULL;
}

const char *ef__function_suggest(ef_str name)
{
    const char *names[EF__FN_COUNT_ALL];

    for (size_t i = 0; i < EF__FN_COUNT_ALL; i++)
        names[i] = ef__functions[i].name;
    return ef__suggest(name, names, EF__FN_COUNT_ALL);
}
