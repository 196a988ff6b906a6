/*
 * no_lmdb.c - stands in for lmdb/ where liblmdb was not there when Everfold was built.
 */
#include "views.h"

ef_status ef__views_lmdb_open(const ef__views_options *options, const char *folder, ef_views **out,
                              ef_error *err)
{
    return ef_fail(err, EF_UNSUPPORTED, "this Everfold was built without LMDB");
}
