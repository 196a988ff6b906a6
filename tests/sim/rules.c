/*
 * rules.c - see rules.h.
 */
#include "rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const TENANTS[2] = {"", "t1"};
static const char *const STREAMS[SIM_STREAMS / 2] = {"s0", "s1", "s2", "s3"};
static const char *const TYPES[SIM_TYPES] = {"add", "sub", "note", "erase"};

const char *sim_tenant_of(int stream)
{
    return TENANTS[stream % 2];
}

const char *sim_stream_name(int stream)
{
    return STREAMS[stream / 2];
}

const char *sim_type_name(sim_type type)
{
    return TYPES[type];
}

int sim_stream_find(const char *tenant, const char *name)
{
    for (int s = 0; s < SIM_STREAMS; s++)
        if (strcmp(tenant, sim_tenant_of(s)) == 0 && strcmp(name, sim_stream_name(s)) == 0)
            return s;
    return -1;
}

/* --- the programs ----------------------------------------------------------------------------- */

static const char *const NAMES[RULE_NAMES] = {"tally", "recent", "picky", "ledger"};

static const struct {
    int name;
    bool by_log;
    const char *text; /* after the version */
} RULES[RULE_COUNT] = {
    [RULE_TALLY] = {0, false,
                    "  view data.k\n"
                    "  index n\n"
                    "\n"
                    "on add\n"
                    "  n += 1\n"
                    "  sum += data.v\n"
                    "  view \"all\"\n"
                    "    n += 1\n"
                    "\n"
                    "on sub\n"
                    "  n += 1\n"
                    "  sum -= data.v\n"},
    [RULE_TALLY_DOUBLE] = {0, false,
                           "  view data.k\n"
                           "  index n\n"
                           "\n"
                           "on add\n"
                           "  n += 1\n"
                           "  sum += data.v + data.v\n"
                           "  view \"all\"\n"
                           "    n += 1\n"
                           "\n"
                           "on sub\n"
                           "  n += 1\n"
                           "  sum -= data.v\n"},
    [RULE_RECENT] = {1, false,
                     "  view stream\n"
                     "\n"
                     "on add, sub\n"
                     "  last = seq\n"
                     "  list push data.v keep 4\n"
                     "\n"
                     "on erase\n"
                     "  delete\n"},
    [RULE_PICKY] = {2, false,
                    "  view data.k\n"
                    "\n"
                    "on add, sub\n"
                    "  n += 1\n"
                    "  sum += data.v / (1 - data.bad)\n"},
    [RULE_PICKY_FIXED] = {2, false,
                          "  view data.k\n"
                          "\n"
                          "on add, sub when data.bad == 1\n"
                          "  bads += 1\n"
                          "\n"
                          "on add, sub\n"
                          "  n += 1\n"
                          "  sum += data.v\n"},
    [RULE_LEDGER] = {3, true,
                     "  order by log\n"
                     "  view \"all\"\n"
                     "\n"
                     "on *\n"
                     "  n += 1\n"
                     "  tail push position keep 4\n"},
    [RULE_LEDGER_PICKY] = {3, true,
                           "  order by log\n"
                           "  view \"all\"\n"
                           "\n"
                           "on *\n"
                           "  n += 1\n"
                           "  total += data.v / (1 - data.bad)\n"},
};

const char *rule_name(int name)
{
    return NAMES[name];
}

int rule_name_find(const char *name)
{
    for (int n = 0; n < RULE_NAMES; n++)
        if (strcmp(NAMES[n], name) == 0)
            return n;
    return -1;
}

int rule_name_of(sim_rule rule)
{
    return RULES[rule].name;
}

bool rule_by_log(sim_rule rule)
{
    return RULES[rule].by_log;
}

sim_rule rule_fixed(int name)
{
    static const sim_rule FIXED[RULE_NAMES] = {RULE_TALLY, RULE_RECENT, RULE_PICKY_FIXED,
                                               RULE_LEDGER};

    return FIXED[name];
}

sim_rule rule_other(int name, uint64_t random)
{
    static const sim_rule OTHERS[RULE_NAMES][2] = {{RULE_TALLY, RULE_TALLY_DOUBLE},
                                                   {RULE_RECENT, RULE_RECENT},
                                                   {RULE_PICKY, RULE_PICKY_FIXED},
                                                   {RULE_LEDGER, RULE_LEDGER_PICKY}};

    return OTHERS[name][random % 2];
}

void rule_text(sim_rule rule, int version, char *out, size_t size)
{
    (void)snprintf(out, size, "projection %s version %d\n%s", NAMES[RULES[rule].name], version,
                   RULES[rule].text);
}

/* --- models ----------------------------------------------------------------------------------- */

static model_view *view_of(sim_model *model, int tenant, const char *id)
{
    model_view *view = NULL;

    for (int i = 0; i < model->count && !view; i++)
        if (model->views[i].tenant == tenant && strcmp(model->views[i].id, id) == 0)
            view = &model->views[i];
    if (!view) {
        view = &model->views[model->count++];
        *view = (model_view){.tenant = tenant};
        (void)snprintf(view->id, sizeof view->id, "%s", id);
    }
    view->there = true;
    return view;
}

static void list_push(model_view *view, int64_t value)
{
    if (view->list_count == SIM_LIST) {
        memmove(view->list, view->list + 1, (SIM_LIST - 1) * sizeof view->list[0]);
        view->list_count--;
    }
    view->list[view->list_count++] = value;
}

static void count_one(model_view *view, int64_t value)
{
    view->has_n = true;
    view->n += 1;
    view->sum += value;
}

folded rule_verdict(sim_rule rule, const sim_event *event)
{
    bool counted = event->type == SIM_ADD || event->type == SIM_SUB;

    switch (rule) {
    case RULE_RECENT:
        return counted || event->type == SIM_ERASE ? FOLDED_APPLIED : FOLDED_IGNORED;
    case RULE_PICKY:
        return !counted ? FOLDED_IGNORED : event->bad ? FOLDED_FAILED : FOLDED_APPLIED;
    case RULE_LEDGER:
        return FOLDED_APPLIED;
    case RULE_LEDGER_PICKY:
        return event->bad ? FOLDED_FAILED : FOLDED_APPLIED;
    default:
        return counted ? FOLDED_APPLIED : FOLDED_IGNORED;
    }
}

static void fold_tally(const sim_event *event, int times, const char *key, sim_model *model)
{
    int tenant = event->stream % 2;

    count_one(view_of(model, tenant, key),
              event->type == SIM_ADD ? event->value * times : -event->value);
    if (event->type == SIM_ADD)
        count_one(view_of(model, tenant, "all"), 0);
}

static void fold_recent(const sim_event *event, sim_model *model)
{
    model_view *view = view_of(model, event->stream % 2, sim_stream_name(event->stream));

    if (event->type == SIM_ERASE) {
        view->there = false;
        view->list_count = 0;
        return;
    }
    view->last = event->seq;
    list_push(view, event->value);
}

static void fold_picky(const sim_event *event, const char *key, sim_model *model)
{
    model_view *view = view_of(model, event->stream % 2, key);

    if (event->bad) {
        view->has_bads = true;
        view->bads += 1;
    } else {
        count_one(view, event->value);
    }
}

folded rule_fold(sim_rule rule, const sim_event *event, sim_model *model)
{
    folded verdict = rule_verdict(rule, event);
    char key[8];

    if (verdict != FOLDED_APPLIED)
        return verdict;
    (void)snprintf(key, sizeof key, "k%d", event->key);
    if (rule == RULE_TALLY || rule == RULE_TALLY_DOUBLE) {
        fold_tally(event, rule == RULE_TALLY ? 1 : 2, key, model);
    } else if (rule == RULE_RECENT) {
        fold_recent(event, model);
    } else if (rule == RULE_PICKY || rule == RULE_PICKY_FIXED) {
        fold_picky(event, key, model);
    } else {
        model_view *all = view_of(model, event->stream % 2, "all");
        count_one(all, event->value);
        list_push(all, event->position);
    }
    return verdict;
}

static void print_list(const model_view *view, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = 0; i < view->list_count && used < size; i++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s%" PRId64, i ? "," : "", view->list[i]);
}

void rule_print(sim_rule rule, const model_view *view, char *out, size_t size)
{
    char list[96];

    print_list(view, list, sizeof list);
    if (rule == RULE_RECENT)
        (void)snprintf(out, size, "{\"last\":%" PRId64 ",\"list\":[%s]}", view->last, list);
    else if (rule == RULE_LEDGER)
        (void)snprintf(out, size, "{\"n\":%" PRId64 ",\"tail\":[%s]}", view->n, list);
    else if (rule == RULE_LEDGER_PICKY)
        (void)snprintf(out, size, "{\"n\":%" PRId64 ",\"total\":%" PRId64 "}", view->n, view->sum);
    else if (rule <= RULE_TALLY_DOUBLE && strcmp(view->id, "all") == 0)
        (void)snprintf(out, size, "{\"n\":%" PRId64 "}", view->n);
    else if (view->has_bads && view->has_n)
        (void)snprintf(out, size, "{\"bads\":%" PRId64 ",\"n\":%" PRId64 ",\"sum\":%" PRId64 "}",
                       view->bads, view->n, view->sum);
    else if (view->has_bads)
        (void)snprintf(out, size, "{\"bads\":%" PRId64 "}", view->bads);
    else
        (void)snprintf(out, size, "{\"n\":%" PRId64 ",\"sum\":%" PRId64 "}", view->n, view->sum);
}
