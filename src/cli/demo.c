/*
 * demo.c - a demo shop (examples/shop) with simulated traffic and an occasional poison event.
 *
 * What happens is made from a seed, so that every demo is the same shop; only the times are
 * today's.
 */
#include "cli.h"
#include "shop.h" /* the programs, made from examples/shop by the build */

#include "../base/deadline.h"
#include "../base/hash.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#define INITIAL_EVENTS 2000
#define BATCH 100
#define POISON_EVERY 499 /* orders */
#define DATA_MAX 512

static const struct {
    const char *sku, *name;
    int price; /* in cents */
} goods[] = {{"tea", "Tea", 420},  {"cup", "Cup", 700},   {"pot", "Pot", 2490},
             {"tin", "Tin", 350},  {"mat", "Mat", 1200},  {"jar", "Jar", 899},
             {"fan", "Fan", 3150}, {"lamp", "Lamp", 5999}};
#define GOODS (sizeof(goods) / sizeof(goods[0]))

static const char *const people[] = {"ada",   "bob",  "cleo",  "dora", "emil", "fay",
                                     "gus",   "hana", "ivo",   "june", "kai",  "lena",
                                     "milan", "nora", "oskar", "pia"};
#define PEOPLE (sizeof(people) / sizeof(people[0]))

/* Storage for one generated event. */
typedef struct demo_event {
    char stream[32];
    const char *type;
    char data[DATA_MAX];
} demo_event;

struct cli_demo {
    cli *c;
    int64_t rate;
    uint64_t seed;
    int64_t orders;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool running, closing;
};

static uint64_t random_below(cli_demo *d, uint64_t below)
{
    d->seed = d->seed * 6364136223846793005u + 1442695040888963407u;
    return (d->seed >> 33) % below;
}

/* --- generated events ------------------------------------------------------------------------- */

static void place_order(cli_demo *d, demo_event *out)
{
    int64_t order = ++d->orders;
    const char *customer = people[random_below(d, PEOPLE)];
    uint64_t cents = 500 + random_below(d, 30000);
    char amount[32] = "\"unknown\""; /* poison: a text, so the program fails in this stream only */

    if (order % POISON_EVERY != 0)
        (void)snprintf(amount, sizeof(amount), "%" PRIu64 ".%02" PRIu64, cents / 100, cents % 100);
    (void)snprintf(out->stream, sizeof(out->stream), "order-%" PRId64, order);
    out->type = "order.placed";
    (void)snprintf(out->data, sizeof(out->data),
                   "{\"customer_id\":\"%s\",\"order_id\":\"%s\",\"amount\":%s}", customer,
                   out->stream, amount);
}

static void cancel_order(cli_demo *d, demo_event *out)
{
    (void)snprintf(out->stream, sizeof(out->stream), "order-%" PRIu64,
                   1 + random_below(d, (uint64_t)d->orders));
    out->type = "order.cancelled";
    (void)snprintf(out->data, sizeof(out->data), "{\"customer_id\":\"%s\",\"amount\":%" PRIu64 "}",
                   people[random_below(d, PEOPLE)], 1 + random_below(d, 20));
}

static void check_out(cli_demo *d, demo_event *out)
{
    size_t a = random_below(d, GOODS), b = (a + 1 + random_below(d, GOODS - 1)) % GOODS;

    (void)snprintf(out->stream, sizeof(out->stream), "cart-%" PRIu64, random_below(d, 500));
    out->type = "cart.checked_out";
    (void)snprintf(out->data, sizeof(out->data),
                   "{\"items\":[{\"sku\":\"%s\",\"qty\":%" PRIu64 ",\"price\":%d.%02d},"
                   "{\"sku\":\"%s\",\"qty\":%" PRIu64 ",\"price\":%d.%02d}]}",
                   goods[a].sku, 1 + random_below(d, 3), goods[a].price / 100, goods[a].price % 100,
                   goods[b].sku, 1 + random_below(d, 3), goods[b].price / 100,
                   goods[b].price % 100);
}

static void list_product(size_t number, demo_event *out)
{
    (void)snprintf(out->stream, sizeof(out->stream), "product-%s", goods[number].sku);
    out->type = "product.listed";
    (void)snprintf(out->data, sizeof(out->data),
                   "{\"sku\":\"%s\",\"name\":\"%s\",\"price\":%d.%02d}", goods[number].sku,
                   goods[number].name, goods[number].price / 100, goods[number].price % 100);
}

static void generate_event(cli_demo *d, demo_event *out)
{
    uint64_t kind = random_below(d, 10);

    if (kind < 6 || d->orders == 0)
        place_order(d, out);
    else if (kind < 9)
        check_out(d, out);
    else
        cancel_order(d, out);
}

/* --- initial events --------------------------------------------------------------------------- */

static ef_status append_events(cli_demo *d, demo_event *what, size_t count, ef_error *err)
{
    ef_new_event events[BATCH];
    ef_place places[BATCH];

    for (size_t i = 0; i < count; i++)
        events[i] = (ef_new_event){.tenant = cli_tenant(d->c),
                                   .stream = ef_str_from(what[i].stream),
                                   .type = ef_str_from(what[i].type),
                                   .data = ef_str_from(what[i].data)};
    return ef_engine_append(d->c->engine, events, count, places, err);
}

static ef_status append_initial_events(cli_demo *d, ef_error *err)
{
    demo_event *what = calloc(BATCH, sizeof *what);
    ef_status st = what ? EF_OK : ef_fail(err, EF_NO_MEMORY, "out of memory");

    if (st == EF_OK) {
        for (size_t i = 0; i < GOODS; i++)
            list_product(i, &what[i]);
        st = append_events(d, what, GOODS, err);
    }
    for (size_t done = 0; st == EF_OK && done < INITIAL_EVENTS; done += BATCH) {
        for (size_t i = 0; i < BATCH; i++)
            generate_event(d, &what[i]);
        st = append_events(d, what, BATCH, err);
    }
    free(what);
    return st;
}

/* --- traffic ---------------------------------------------------------------------------------- */

/* Waits for the time of the next event; false once the demo is closed. */
static bool wait_for_next_event(cli_demo *d)
{
    struct timespec until;
    int64_t ns = 1000000000 / d->rate;
    bool open;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (until.tv_nsec + ns) / 1000000000;
    until.tv_nsec = (until.tv_nsec + ns) % 1000000000;
    pthread_mutex_lock(&d->lock);
    while (!d->closing && pthread_cond_timedwait(&d->wake, &d->lock, &until) != ETIMEDOUT)
        ;
    open = !d->closing;
    pthread_mutex_unlock(&d->lock);
    return open;
}

static void *run_traffic(void *context)
{
    cli_demo *d = context;

    while (wait_for_next_event(d)) {
        demo_event what;
        ef_error err = EF_ERROR_INIT;
        generate_event(d, &what);
        if (append_events(d, &what, 1, &err) != EF_OK)
            cli_warn(d->c, "everfold: demo: %s", err.text);
    }
    return NULL;
}

/* --- open and close --------------------------------------------------------------------------- */

static ef_status deploy_program(cli *c, const char *name, ef_str text, ef_error *err)
{
    EF__AUTO(ef_projection_list) deployed = {0};
    EF__AUTO(ef_text) report = {0};
    return ef_projection_deploy(c->engine, &(ef_deploy){.file_name = name, .text = text}, &deployed,
                                &report, err);
}

ef_status cli_demo_directory(char out[PATH_MAX], ef_error *err)
{
    const char *folder = getenv("TMPDIR");

    (void)snprintf(out, PATH_MAX, "%s/everfold-demo.XXXXXX", folder && *folder ? folder : "/tmp");
    if (!mkdtemp(out))
        return ef_fail(err, EF_IO, "%s could not be created: %s", out, strerror(errno));
    return EF_OK;
}

ef_status cli_demo_open(cli *c, int64_t rate, cli_demo **out, ef_error *err)
{
    cli_demo *d = calloc(1, sizeof *d);
    ef_head head = {0};
    ef_status st =
        d ? ef_journal_head(c->journal, &head, err) : ef_fail(err, EF_NO_MEMORY, "out of memory");

    *out = NULL;
    if (st == EF_OK)
        st = deploy_program(c, "customer_orders.fold", ef_str_from(shop_customer_orders), err);
    if (st == EF_OK)
        st = deploy_program(c, "products.fold", ef_str_from(shop_products), err);
    if (st != EF_OK) {
        free(d);
        return st;
    }
    d->c = c;
    d->rate = rate;
    d->seed = 7 + (uint64_t)head.position;
    d->orders = head.position; /* above every existing order number */
    pthread_mutex_init(&d->lock, NULL);
    ef__cond_init(&d->wake);
    if (head.position == 0)
        st = append_initial_events(d, err);
    if (st == EF_OK && pthread_create(&d->thread, NULL, run_traffic, d) != 0)
        st = ef_fail(err, EF_NO_MEMORY, "the thread of the demo could not be started");
    d->running = st == EF_OK;
    if (st == EF_OK)
        *out = d;
    else
        cli_demo_close(d);
    return st;
}

void cli_demo_close(cli_demo *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->closing = true;
    pthread_cond_signal(&d->wake);
    pthread_mutex_unlock(&d->lock);
    if (d->running)
        (void)pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->wake);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

void cli_demo_say(const cli *c, const char *url)
{
    const char *name = c->program;

    cli_say(c,
            "demo shop with simulated traffic: open %s/ in a browser, or try in another terminal:",
            url);
    cli_say(c, "  export EVERFOLD_SERVER=%s", url);
    cli_say(c,
            "  %s view query customer_orders --sort -total --fields orders,total,status --limit 5",
            name);
    cli_say(c, "  %s outbox report --status failed      # poison events", name);
    cli_say(c, "  %s top                                # live overview", name);
    cli_say(c, "  %s projection verify customer_orders  # compare with a side build", name);
    cli_say(c, "  curl -N $EVERFOLD_SERVER/v1/subscribe/views/customer_orders");
}
