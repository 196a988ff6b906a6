/*
 * header.c - the headers of a request, as the HTTP library has them. By itself, so that a fuzzer
 * can give others.
 */
#include "http_priv.h"
#include "request.h"

ef_str ef__request_header(const ef__request *r, const char *name)
{
    const char *value = NULL;
    size_t name_length = strlen(name), length = 0;

    if (!(r->header_bits & ef__header_bit(name, name_length)) ||
        MHD_lookup_connection_value_n(r->connection, MHD_HEADER_KIND, name, name_length, &value,
                                      &length) != MHD_YES)
        return EF_STR("");
    return (ef_str){value, length};
}

typedef struct header_walk {
    bool (*each)(void *context, ef_str name, ef_str value);
    void *context;
} header_walk;

static enum MHD_Result walk_header(void *cls, enum MHD_ValueKind kind, const char *key,
                                   const char *value)
{
    const header_walk *walk = cls;

    (void)kind;
    return walk->each(walk->context, ef_str_from(key), ef_str_from(value)) ? MHD_YES : MHD_NO;
}

void ef__request_each_header(const ef__request *r,
                             bool (*each)(void *context, ef_str name, ef_str value), void *context)
{
    header_walk walk = {each, context};

    (void)MHD_get_connection_values(r->connection, MHD_HEADER_KIND, walk_header, &walk);
}
