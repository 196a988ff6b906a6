/*
 * meter.c - counts what the server does: see metrics.h.
 */
#include "metrics.h"

#include "request.h"

const int64_t ef__bucket_us[EF__BUCKETS] = {100,     250,     500,     1000,    2500,
                                            5000,    10000,   25000,   100000,  250000,
                                            1000000, 2500000, 5000000, 10000000};

static void counter_add(int64_t *to, int64_t n)
{
    __atomic_add_fetch(to, n, __ATOMIC_RELAXED);
}

static void histogram_observe(ef__histogram *h, int64_t us)
{
    size_t i = 0;

    while (i < EF__BUCKETS && us > ef__bucket_us[i])
        i++;
    counter_add(&h->counts[i], 1);
    counter_add(&h->sum_us, us);
}

void ef__meter_append(ef__server *server, ef_status status, const ef_place *places, size_t count,
                      int64_t us)
{
    ef__server_meter *m = &server->meter;
    int64_t duplicates = 0;

    histogram_observe(&m->append, us);
    if (status != EF_OK) {
        bool conflict = ef_status_http(status) == 409;
        counter_add(&m->appended[conflict ? 2 : 3], (int64_t)count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        duplicates += places[i].duplicate;
    counter_add(&m->appended[0], (int64_t)count - duplicates);
    counter_add(&m->appended[1], duplicates);
}

void ef__meter_wait(ef__server *server, ef_status status, int64_t us)
{
    if (status == EF_OK || status == EF_NOT_FOUND || status == EF_TIMEOUT)
        histogram_observe(&server->meter.waits[status == EF_TIMEOUT], us);
}

void ef__meter_request(const ef__request *r)
{
    ef__server_meter *m = &r->server->meter;
    int status = r->status ? r->status : 200;

    if (status >= 100 && status < 600)
        counter_add(&m->requests[ef__route_number(r->route)][status / 100 - 1], 1);
    if (!r->route || !(r->route->flags & EF__ROUTE_STREAM))
        histogram_observe(&m->request, ef__server_mono(r->server) - r->began_us);
}
