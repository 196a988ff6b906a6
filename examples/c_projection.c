/*
 * c_projection.c - a projection written in C: a function that changes views by events.
 *
 * c_projection DIRECTORY
 *
 * The journal is DIRECTORY/journal.db and the views are DIRECTORY/views.db, so that `everfold
 * --data DIRECTORY view query stock` shows the same. The program can be run again: the event ids
 * make the appends idempotent, and the projection continues where it stopped.
 */
#include <everfold/everfold.h>

#include <inttypes.h>
#include <stdio.h>

/*
 * Goods are received and shipped; a view is the stock of one article. The function is called for
 * one event after another, in the order of the journal, and is pure: the result depends on the
 * event and the view only. It returns an error for an invalid event: then nothing of the event is
 * stored, and the projection stops there.
 */
static ef_status fold_stock(ef_fold *fold, const ef_event *event, void *context, ef_error *err)
{
    bool in = ef_str_equal(event->type, EF_STR("goods.received"));
    int64_t low_below = *(const int64_t *)context, count = 0, left = 0;
    ef_str article;
    ef_status st;

    if (!in && !ef_str_equal(event->type, EF_STR("goods.shipped")))
        return ef_fold_ignore(fold);
    st = ef_fold_data_text(fold, "article", &article, err);
    if (st == EF_OK)
        st = ef_fold_data_int(fold, "count", &count, err);
    if (st == EF_OK)
        st = ef_fold_view(fold, article, err);
    if (st == EF_OK)
        st = ef_fold_add_int(fold, "left", in ? count : -count, err);
    if (st == EF_OK)
        st = ef_fold_get_int(fold, "left", &left, err);
    if (st == EF_OK)
        st = ef_fold_set(fold, "low", left < low_below ? EF_STR("true") : EF_STR("false"), err);
    return st;
}

static ef_status append_goods(ef_engine *engine, ef_error *err)
{
    const ef_new_event events[] = {
        {.stream = EF_STR("delivery-1"),
         .type = EF_STR("goods.received"),
         .id = EF_STR("d-1"),
         .data = EF_STR("{\"article\":\"pen\",\"count\":10}")},
        {.stream = EF_STR("delivery-2"),
         .type = EF_STR("goods.received"),
         .id = EF_STR("d-2"),
         .data = EF_STR("{\"article\":\"ink\",\"count\":4}")},
        {.stream = EF_STR("order-1"),
         .type = EF_STR("goods.shipped"),
         .id = EF_STR("o-1"),
         .data = EF_STR("{\"article\":\"ink\",\"count\":3}")},
    };
    ef_place places[3];

    return ef_engine_append(engine, events, 3, places, err);
}

/* Calls the function. A tick is a bounded amount of work; `more` is true until everything is
 * applied. */
static ef_status fold_all(ef_engine *engine, ef_error *err)
{
    ef_tick tick = {.more = true};
    ef_status st = EF_OK;

    while (st == EF_OK && tick.more)
        st = ef_engine_work(engine, NULL, &tick, err);
    return st;
}

static ef_status print_stock(ef_engine *engine, ef_error *err)
{
    ef_view_query query = {
        .projection = EF_STR("stock"), .sort = EF_STR("left"), .freshness = {.current = true}};
    ef_view_list list = {0};
    ef_status st = ef_view_find(engine, &query, &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        printf("%.*s: %.*s\n", EF_STR_ARG(list.items[i].view_id), EF_STR_ARG(list.items[i].data));
    if (st == EF_OK)
        printf("as of position %" PRId64 "\n", list.as_of);
    EF_RELEASE(&list);
    return st;
}

static ef_status run(ef_journal *journal, const char *views_url, ef_error *err)
{
    static int64_t low_below = 3;
    ef_c_projection stock = {.name = EF_STR("stock"),
                             .version = 1,
                             .indexes = EF_STR("left"),
                             .fn = fold_stock,
                             .context = &low_below};
    ef_engine_options options = {.journal = journal, .views_url = views_url, .create = true};
    ef_engine *engine = NULL;
    ef_status st = ef_engine_open(&options, &engine, err);

    if (st == EF_OK)
        st = ef_engine_register(engine, &stock, err);
    if (st == EF_OK)
        st = append_goods(engine, err);
    if (st == EF_OK)
        st = fold_all(engine, err);
    if (st == EF_OK)
        st = print_stock(engine, err);
    ef_engine_close(engine);
    return st;
}

int main(int argc, char **argv)
{
    char journal_url[4096], views_url[4096];
    ef_error err = EF_ERROR_INIT;
    ef_journal *journal = NULL;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: c_projection DIRECTORY\n");
        return 2;
    }
    (void)snprintf(journal_url, sizeof journal_url, "sqlite:%s/journal.db", argv[1]);
    (void)snprintf(views_url, sizeof views_url, "sqlite:%s/views.db", argv[1]);
    ef_journal_options options = {.url = journal_url, .create = true};
    ef_status st = ef_journal_open(&options, &journal, &err);
    if (st == EF_OK)
        st = run(journal, views_url, &err);
    ef_journal_close(journal);
    if (st != EF_OK)
        (void)fprintf(stderr, "c_projection: %s\n", err.text);
    return st == EF_OK ? 0 : 1;
}
