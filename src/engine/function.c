/*
 * function.c - see function.h.
 */
#include "function.h"

#include "engine_priv.h"

#include "../fold/folder.h"

#include <inttypes.h>
#include <stdlib.h>

#define HEAD_BYTES_MAX 65536
#define MARK "c " /* before the head, which is a program's otherwise */

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while registering a projection");
}

/* --- what there is --------------------------------------------------------------------------- */

bool ef__generation_in_c(const ef__generation *g)
{
    static const char begin[] = MARK "projection ";

    return g->program.len >= sizeof begin - 1 &&
           memcmp(g->program.ptr, begin, sizeof begin - 1) == 0;
}

static ef__function *find_function(const ef_engine *e, ef_str name, int32_t version)
{
    for (ef__function *f = e->functions; f; f = f->next)
        if (f->projection.version == version && ef_str_equal(f->projection.name, name))
            return f;
    return NULL;
}

bool ef__function_missing(ef_engine *e, const ef__generation *g)
{
    bool missing;

    if (!ef__generation_in_c(g))
        return false;
    pthread_mutex_lock(&e->lock);
    missing = !find_function(e, g->name, g->version);
    pthread_mutex_unlock(&e->lock);
    return missing;
}

void ef__functions_release(ef__function *f)
{
    while (f) {
        ef__function *next = f->next;
        free(f->name);
        free(f);
        f = next;
    }
}

/* --- the program that stands for it ----------------------------------------------------------- */

/* A head alone is no program. The handler is never run; it may write anything, so that any field
 * may be indexed. */
static ef_status compile_head(ef_str head, ef__program **out, ef_error *err)
{
    ef__diagnostics *diagnostics = malloc(sizeof *diagnostics);
    ef__buf text = EF__BUF_INIT(HEAD_BYTES_MAX + 64);
    ef_status st;

    (void)ef__buf_add_str(&text, (ef_str){head.ptr + strlen(MARK), head.len - strlen(MARK)});
    (void)ef__buf_add_text(&text, "\non *\n  view = data\n");
    st =
        diagnostics && !text.failed
            ? ef__program_compile(EF_STR("C projection"), ef__buf_str(&text), out, diagnostics, err)
            : no_memory(err);
    ef__buf_release(&text);
    free(diagnostics);
    return st;
}

ef_status ef__function_compile(ef_engine *e, const ef__generation *g, ef__program **out,
                               ef_error *err)
{
    const ef__function *f = find_function(e, g->name, g->version);
    ef_status st;

    if (!f)
        return ef_fail(err, EF_UNSUPPORTED,
                       "projection \"%.*s\" version %d is written in C, and its function is not "
                       "registered in this process",
                       EF_STR_ARG(g->name), (int)g->version);
    st = compile_head(g->program, out, err);
    if (st == EF_OK)
        ef__program_use_function(*out, f->projection.fn, f->projection.context);
    return st;
}

/* --- registering ------------------------------------------------------------------------------ */

static ef_status write_head(const ef_c_projection *p, ef__buf *out, ef_error *err)
{
    ef__buf_printf(out, MARK "projection %.*s version %" PRId32 "\n  order by log\n",
                   EF_STR_ARG(p->name), p->version);
    if (p->indexes.len)
        ef__buf_printf(out, "  index %.*s\n", EF_STR_ARG(p->indexes));
    return out->failed ? no_memory(err) : EF_OK;
}

/* A name or an index with a line break in it could bring a head of its own. */
static ef_status check(const ef_c_projection *p, ef_error *err)
{
    if (!p->fn)
        return ef_fail(err, EF_BAD_INPUT, "fn is NULL");
    if (p->version < 1)
        return ef_fail(err, EF_BAD_INPUT, "version is %" PRId32 ", at least 1 is needed",
                       p->version);
    if ((p->name.len && memchr(p->name.ptr, '\n', p->name.len)) ||
        (p->indexes.len && memchr(p->indexes.ptr, '\n', p->indexes.len)))
        return ef_fail(err, EF_BAD_INPUT, "a name or index of a projection has a line break");
    return EF_OK;
}

/* The engine's lock is held. */
static ef_status keep_function(ef_engine *e, const ef_c_projection *p, ef_error *err)
{
    ef__function *f = find_function(e, p->name, p->version);

    if (f && f->projection.fn == p->fn && f->projection.context == p->context)
        return EF_OK;
    if (f)
        return ef_fail(err, EF_CONFLICT,
                       "projection \"%.*s\" version %" PRId32 " has another function already",
                       EF_STR_ARG(p->name), p->version);
    f = calloc(1, sizeof *f);
    if (f)
        f->name = strndup(p->name.ptr, p->name.len);
    if (!f || !f->name) {
        free(f);
        return no_memory(err);
    }
    f->projection = *p;
    f->projection.name = (ef_str){f->name, p->name.len};
    f->projection.indexes = (ef_str){0};
    f->next = e->functions;
    e->functions = f;
    return EF_OK;
}

ef_status ef_engine_register(ef_engine *e, const ef_c_projection *p, ef_error *err)
{
    ef__buf head = EF__BUF_INIT(HEAD_BYTES_MAX);
    ef__program *program = NULL;
    ef_status st;

    if (!e || !p)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "projection" : "engine");
    st = check(p, err);
    if (st == EF_OK)
        st = write_head(p, &head, err);
    if (st == EF_OK)
        st = compile_head(ef__buf_str(&head), &program, err);
    if (st == EF_OK && !e->options.read_only)
        st = ef__deploy_program(e, program, ef__buf_str(&head), err);
    if (st == EF_OK) {
        pthread_mutex_lock(&e->lock);
        st = keep_function(e, p, err);
        pthread_mutex_unlock(&e->lock);
    }
    ef__program_close(program);
    ef__buf_release(&head);
    return st;
}
