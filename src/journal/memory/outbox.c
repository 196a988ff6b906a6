/*
 * outbox.c - the memory journal's lanes: queueing is append's, taking and marking is here.
 *
 * Per lane and partition: mark <= hand (while a batch is in hand), and rows are all above the mark.
 * What was in hand under an older token counts as suspect until the mark has passed it.
 */
#include "memory.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- lanes ------------------------------------------------------------------------------------ */

int64_t ef__mem_lane_find(const mem_journal *m, ef_str name)
{
    for (size_t i = 0; i < m->lane_count; i++)
        if (ef_str_equal(m->lanes[i].name, name))
            return (int64_t)i;
    return -1;
}

ef_status ef__mem_no_lane(ef_str name, ef_error *err)
{
    return ef_fail(err, EF_NOT_FOUND, "there is no lane \"%.*s\"", EF_STR_ARG(name));
}

/* Nothing may be queued in it. */
void ef__mem_lane_free(mem_lane *lane)
{
    ef__mem_text_free(&lane->name);
    ef__mem_text_free(&lane->types);
    ef__mem_text_free(&lane->settings);
    ef__mem_text_free(&lane->progress);
    free(lane->parts);
}

ef_status ef__mem_lane_add(mem_journal *m, const ef_lane *lane, ef_error *err)
{
    mem_lane made = {.kind = lane->kind, .enabled = lane->enabled, .retain_us = lane->retain_us};

    made.parts = calloc(EF_LIMIT_PARTITIONS, sizeof *made.parts);
    if (!made.parts ||
        !ef__mem_grow((void **)&m->lanes, &m->lane_cap, m->lane_count, sizeof *m->lanes) ||
        !ef__mem_text_set(&made.name, lane->name) || !ef__mem_text_set(&made.types, lane->types) ||
        !ef__mem_text_set(&made.settings, lane->settings)) {
        ef__mem_lane_free(&made);
        return ef__mem_no_memory(err);
    }
    m->lanes[m->lane_count++] = made;
    return EF_OK;
}

static bool is_as(const mem_lane *lane, const ef_lane *expected)
{
    return lane->enabled == expected->enabled && lane->retain_us == expected->retain_us &&
           ef_str_equal(lane->types, expected->types) &&
           ef_str_equal(lane->settings, expected->settings);
}

static ef_status set_lane(mem_journal *m, const ef_lane *lane, const ef_lane *expected,
                          ef_error *err)
{
    int64_t found = ef__mem_lane_find(m, lane->name);

    if (expected && (found < 0 || !is_as(&m->lanes[found], expected)))
        return ef__lane_changed(lane->name, err);
    if (found < 0)
        return ef__mem_lane_add(m, lane, err);
    /* Its rows are held under leases of its kind: they would be nobody's. */
    if (m->lanes[found].kind != lane->kind)
        return ef_fail(err, EF_BAD_INPUT, "lane \"%.*s\" is there and of another kind",
                       EF_STR_ARG(lane->name));
    if (!ef__mem_text_set(&m->lanes[found].types, lane->types) ||
        !ef__mem_text_set(&m->lanes[found].settings, lane->settings))
        return ef__mem_no_memory(err);
    m->lanes[found].enabled = lane->enabled;
    m->lanes[found].retain_us = lane->retain_us;
    return EF_OK;
}

ef_status ef__mem_lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                           ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = set_lane(m, lane, expected, err);

    ef__mem_unlock(m);
    return st;
}

static int compare_lanes(const void *a, const void *b)
{
    return ef__mem_compare(((const ef_lane *)a)->name, ((const ef_lane *)b)->name);
}

static ef_status list_lanes(const mem_journal *m, ef_lane_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_lane *items = ef__arena_zalloc(arena, m->lane_count, sizeof *items);

    if (!items)
        return ef__room_full(err);
    for (size_t i = 0; i < m->lane_count; i++) {
        const mem_lane *lane = &m->lanes[i];
        items[i] = (ef_lane){.name = ef__arena_copy(arena, lane->name),
                             .kind = lane->kind,
                             .enabled = lane->enabled,
                             .types = ef__arena_copy(arena, lane->types),
                             .settings = ef__arena_copy(arena, lane->settings),
                             .retain_us = lane->retain_us,
                             .progress = ef__arena_copy(arena, lane->progress)};
        if (!items[i].name.ptr || !items[i].types.ptr || !items[i].settings.ptr ||
            !items[i].progress.ptr)
            return ef__room_full(err);
    }
    qsort(items, m->lane_count, sizeof *items, compare_lanes);
    out->items = items;
    out->count = m->lane_count;
    return EF_OK;
}

ef_status ef__mem_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = list_lanes(m, out, err);

    ef__mem_unlock(m);
    return st;
}

/* --- exceptions ------------------------------------------------------------------------------- */

size_t ef__mem_exception_at(const mem_journal *m, int64_t position, size_t lane, bool *found)
{
    size_t low = 0, high = m->exception_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const mem_exception *x = &m->exceptions[middle];
        bool before = x->position < position ||
                      (x->position == position &&
                       ef__mem_compare(m->lanes[x->lane].name, m->lanes[lane].name) < 0);
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < m->exception_count && m->exceptions[low].position == position &&
             m->exceptions[low].lane == lane;
    return low;
}

bool ef__mem_exception_first(const mem_journal *m, size_t index)
{
    const mem_exception *x = &m->exceptions[index];

    for (size_t i = 0; i < index; i++)
        if (m->exceptions[i].lane == x->lane &&
            m->events[m->exceptions[i].position - 1]->stream == m->events[x->position - 1]->stream)
            return false;
    return true;
}

/* --- taking ----------------------------------------------------------------------------------- */

/* A batch that is being filled. */
typedef struct mem_taking {
    mem_journal *m;
    const ef_holding *held;
    size_t held_count;
    int64_t after;
    size_t limit;
    ef_taken *items;
    ef_event *events;
    ef_taken_batch *out;
} mem_taking;

static ef_status taking_ready(mem_taking *t, size_t rows, ef_error *err)
{
    ef__arena *arena = &t->out->events.room->arena;
    size_t count = (rows < t->limit ? rows : t->limit) + 1;

    t->items = ef__arena_zalloc(arena, count, sizeof *t->items);
    t->events = ef__arena_zalloc(arena, count, sizeof *t->events);
    if (!t->items || !t->events)
        return ef__room_full(err);
    t->out->items = t->items;
    t->out->events.events = t->events;
    return EF_OK;
}

/* Has its stream an exception before it in the lane? */
static bool waits_in(const mem_journal *m, size_t lane, const mem_event *event)
{
    for (size_t i = 0; i < m->exception_count; i++) {
        const mem_exception *x = &m->exceptions[i];
        if (x->position >= event->event.position)
            break;
        if (x->lane == lane && m->events[x->position - 1]->stream == event->stream)
            return true;
    }
    return false;
}

/* False when the batch is full: it ends before this row, and there is more. */
static bool take_one(mem_taking *t, size_t lane, int64_t position, ef_taken item)
{
    ef__arena *arena = &t->out->events.room->arena;
    const mem_event *event = t->m->events[position - 1];
    size_t at = t->out->count;

    item.lane = ef__arena_copy(arena, t->m->lanes[lane].name);
    item.event = &t->events[at];
    item.partition = event->partition;
    if (at == t->limit || !item.lane.ptr ||
        !ef__mem_event_copy(t->m, event, arena, &t->events[at])) {
        t->out->more = true;
        return false;
    }
    t->items[at] = item;
    t->out->count = t->out->events.count = at + 1;
    return true;
}

static bool take_row(mem_taking *t, size_t lane, int64_t position, bool suspect)
{
    ef_taken item = {.suspect = suspect};

    item.waits = t->m->lanes[lane].kind == EF_LANE_KIND_PUBLISHER &&
                 waits_in(t->m, lane, t->m->events[position - 1]);
    return take_one(t, lane, position, item);
}

/* A new owner finds what the last one left in hand: nobody can say what became of it. What is in
 * hand from now on is the batch that is being taken, and what it follows on. */
static void pass_hand(mem_part *part, int64_t token, int64_t after)
{
    bool own = part->hand_token == token;

    if (!own && part->hand > part->mark)
        part->suspect = part->hand;
    part->hand_token = token;
    part->hand = own && after ? part->hand : 0;
}

static size_t first_behind(const mem_part *part, int64_t after)
{
    size_t r = part->first;

    while (r < part->count && part->rows[r] <= after)
        r++;
    return r;
}

/* The held partition whose next row has the lowest position; -1 when all are empty. */
static int64_t lowest(const mem_taking *t, const mem_lane *lane, const size_t *next)
{
    int64_t best = -1, best_position = 0;

    for (size_t i = 0; i < t->held_count; i++) {
        const mem_part *part = &lane->parts[t->held[i].partition];
        if (next[i] < part->count && (best < 0 || part->rows[next[i]] < best_position)) {
            best = (int64_t)i;
            best_position = part->rows[next[i]];
        }
    }
    return best;
}

static size_t count_suspects(const mem_part *part)
{
    size_t count = 0;

    for (size_t r = part->first; r < part->count && part->rows[r] <= part->suspect; r++)
        count++;
    return count;
}

/* What is suspect in one of the partitions held: a piece of much, or one of few. */
static ef_status take_suspects(mem_taking *t, size_t lane_index, ef_error *err)
{
    mem_lane *lane = &t->m->lanes[lane_index];

    for (size_t i = 0; i < t->held_count; i++) {
        mem_part *part = &lane->parts[t->held[i].partition];
        size_t suspects = count_suspects(part);
        size_t piece = suspects > EF_SUSPECT_PIECE ? EF_SUSPECT_PIECE : suspects > 0;
        for (size_t n = 0; n < piece && n < t->limit; n++) {
            int64_t position = part->rows[part->first + n];
            if (!take_row(t, lane_index, position, true))
                break;
            part->hand = position;
        }
        if (t->out->count) {
            t->out->more = suspects > t->out->count;
            return EF_OK;
        }
        if (suspects)
            return ef__room_full(err);
    }
    return EF_OK;
}

static ef_status take_queued(mem_taking *t, size_t lane_index, ef_error *err)
{
    mem_lane *lane = &t->m->lanes[lane_index];
    size_t *next = ef__arena_zalloc(&t->out->events.room->arena, t->held_count, sizeof *next);
    size_t rows = 0;
    int64_t h;
    ef_status st;

    if (!next)
        return ef__room_full(err);
    for (size_t i = 0; i < t->held_count; i++) {
        mem_part *part = &lane->parts[t->held[i].partition];
        pass_hand(part, t->held[i].token, t->after);
        next[i] = first_behind(part, t->after);
        rows += part->count - next[i];
    }
    st = taking_ready(t, rows, err);
    if (st == EF_OK && lane->kind != EF_LANE_KIND_PUBLISHER)
        st = take_suspects(t, lane_index, err);
    if (st != EF_OK || t->out->count)
        return st;
    while ((h = lowest(t, lane, next)) >= 0) {
        mem_part *part = &lane->parts[t->held[h].partition];
        int64_t position = part->rows[next[h]++];
        if (!take_row(t, lane_index, position, false))
            break;
        part->hand = position;
    }
    return rows > 0 && t->out->count == 0 ? ef__room_full(err) : EF_OK;
}

static bool is_held(const ef_holding *held, size_t count, int32_t partition)
{
    for (size_t i = 0; i < count; i++)
        if (held[i].partition == partition)
            return true;
    return false;
}

/* `lane` below 0: the own lanes of all projections. */
static bool is_due(const mem_taking *t, int64_t lane, size_t index, int64_t now_us)
{
    const mem_exception *x = &t->m->exceptions[index];
    bool waits = x->status == EF_ROW_PENDING || x->status == EF_ROW_FAILED;
    bool ours =
        lane < 0 ? t->m->lanes[x->lane].kind == EF_LANE_KIND_PROJECTION : x->lane == (size_t)lane;

    return ours && waits && x->due_us <= now_us &&
           is_held(t->held, t->held_count, t->m->events[x->position - 1]->partition) &&
           ef__mem_exception_first(t->m, index);
}

static bool take_exception(mem_taking *t, const mem_exception *x, bool follows)
{
    ef_taken item = {.attempts = x->attempts,
                     .skip = x->skip,
                     .follows = follows,
                     .filed = x->filed,
                     .interrupted = x->trying && !follows};

    if (!follows)
        item.error = ef__arena_copy(&t->out->events.room->arena, x->error);
    return (follows || item.error.ptr) && take_one(t, x->lane, x->position, item);
}

/* The pending ones of its stream that wait behind an exception, up to one that is another owner's:
 * after a change of the number of partitions a stream may have rows in two. */
static bool take_behind(mem_taking *t, size_t index)
{
    const mem_journal *m = t->m;
    const mem_exception *first = &m->exceptions[index];
    size_t stream = m->events[first->position - 1]->stream;

    for (size_t i = index + 1; i < m->exception_count; i++) {
        const mem_exception *x = &m->exceptions[i];
        if (x->lane != first->lane || m->events[x->position - 1]->stream != stream)
            continue;
        if (x->status != EF_ROW_PENDING ||
            !is_held(t->held, t->held_count, m->events[x->position - 1]->partition))
            return true;
        if (!take_exception(t, x, true))
            return false;
    }
    return true;
}

static void note_next_due(mem_taking *t, int64_t due_us)
{
    if (t->out->next_due_us == 0 || due_us < t->out->next_due_us)
        t->out->next_due_us = due_us;
}

/* Is exception a to be taken before b? By lane, then due time, then position. */
static bool is_before(const mem_journal *m, size_t a, size_t b)
{
    const mem_exception *x = &m->exceptions[a], *y = &m->exceptions[b];
    int order = ef__mem_compare(m->lanes[x->lane].name, m->lanes[y->lane].name);

    if (order)
        return order < 0;
    return x->due_us != y->due_us ? x->due_us < y->due_us : x->position < y->position;
}

/* The indexes of the exceptions that are due, in order, in `out`. */
static size_t list_due(mem_taking *t, int64_t lane, size_t *out)
{
    int64_t now_us = ef__mem_now(t->m);
    size_t count = 0;

    for (size_t i = 0; i < t->m->exception_count; i++) {
        size_t at = count;
        if (!is_due(t, lane, i, INT64_MAX))
            continue;
        if (t->m->exceptions[i].due_us > now_us) {
            note_next_due(t, t->m->exceptions[i].due_us);
            continue;
        }
        for (; at > 0 && is_before(t->m, i, out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = i;
        count++;
    }
    return count;
}

static ef_status take_due(mem_taking *t, int64_t lane, ef_error *err)
{
    size_t *due =
        ef__arena_alloc(&t->out->events.room->arena, (t->m->exception_count + 1) * sizeof *due);
    ef_status st = due ? taking_ready(t, t->m->exception_count, err) : ef__room_full(err);
    size_t count = st == EF_OK ? list_due(t, lane, due) : 0;

    for (size_t i = 0; i < count; i++)
        if (!take_exception(t, &t->m->exceptions[due[i]], false) || !take_behind(t, due[i]))
            break;
    return st == EF_OK && count && t->out->count == 0 ? ef__room_full(err) : st;
}

static ef_status check_holdings(mem_journal *m, const mem_lane *lane, const ef_holding *held,
                                size_t count, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = ef__mem_holding_check(m, lane, &held[i], err);
    return st;
}

static ef_status take_from(mem_taking *t, ef_str lane, bool due, ef_error *err)
{
    bool all = lane.len == 0;
    int64_t found = all ? 0 : ef__mem_lane_find(t->m, lane); /* "*" stands for all projections */
    ef_status st;

    if (found < 0)
        return ef__mem_no_lane(lane, err);
    st = check_holdings(t->m, &t->m->lanes[found], t->held, t->held_count, err);
    if (st == EF_OK && t->after)
        st = ef__lane_publishes(lane, t->m->lanes[found].kind, err);
    if (st != EF_OK)
        return st;
    return due ? take_due(t, all ? -1 : found, err) : take_queued(t, (size_t)found, err);
}

ef_status ef__mem_take(ef_journal *journal, const ef__taking *take, ef_taken_batch *out,
                       ef_error *err)
{
    mem_taking t = {.held = take->held,
                    .held_count = take->held_count,
                    .after = take->after,
                    .limit = take->limit,
                    .out = out};
    ef_status st;

    t.m = ef__mem_lock(journal);
    st = take_from(&t, take->lane, take->due, err);
    ef__mem_unlock(t.m);
    return st;
}

/* --- marking ---------------------------------------------------------------------------------- */

static ef_status check_upto(const mem_lane *lane, const ef_holding *held, ef_error *err)
{
    const mem_part *part = &lane->parts[held->partition];
    int64_t most = part->mark;

    if (part->hand_token == held->token && part->hand > most)
        most = part->hand;
    if (held->upto == 0 || (held->upto >= part->mark && held->upto <= most))
        return EF_OK;
    return ef_fail_numbers(err, EF_BAD_INPUT, held->upto, most,
                           "lane \"%.*s\", partition %" PRId32 ": upto is %" PRId64
                           ", the mark is at %" PRId64 " and %" PRId64 " was taken",
                           EF_STR_ARG(lane->name), held->partition, held->upto, part->mark, most);
}

/* The lane of an exception; made when it is a projection's and new. */
static ef_status exception_lane(mem_journal *m, size_t marked, const ef_exception *x, size_t *out,
                                ef_error *err)
{
    bool publisher = m->lanes[marked].kind == EF_LANE_KIND_PUBLISHER;
    int64_t found = ef__mem_lane_find(m, x->lane);
    ef_lane made = {.name = x->lane, .kind = EF_LANE_KIND_PROJECTION, .enabled = true};
    ef_status st;

    if (publisher ? found != (int64_t)marked
                  : found >= 0 && m->lanes[found].kind != EF_LANE_KIND_PROJECTION)
        return ef_fail(err, EF_BAD_INPUT,
                       "an exception of lane \"%.*s\" cannot be marked in lane \"%.*s\"",
                       EF_STR_ARG(x->lane), EF_STR_ARG(m->lanes[marked].name));
    if (found < 0) {
        if ((st = ef__mem_lane_add(m, &made, err)) != EF_OK)
            return st;
        found = (int64_t)m->lane_count - 1;
    }
    *out = (size_t)found;
    return EF_OK;
}

/* Does this call move the mark past the queued row? Then it may become an exception. */
static bool passes(const mem_lane *lane, const ef__marking *mark, const mem_event *event)
{
    const mem_part *part = &lane->parts[event->partition];

    for (size_t i = 0; i < mark->held_count; i++)
        if (mark->held[i].partition == event->partition &&
            event->event.position <= mark->held[i].upto)
            for (size_t r = part->first; r < part->count; r++)
                if (part->rows[r] == event->event.position)
                    return true;
    return false;
}

/* One exception of a mark, looked at before anything is changed. */
typedef struct mem_change {
    size_t lane;
    ef_str error; /* owned until it is in the row */
    bool wanted;  /* false: its row is gone, and stays gone; or there, and is filed again */
    bool filed;
} mem_change;

static ef_status plan_change(mem_journal *m, size_t lane, const ef__marking *mark,
                             const ef_exception *x, mem_change *out, ef_error *err)
{
    const mem_event *event;
    bool found;
    ef_status st;

    if (x->position > (int64_t)m->event_count)
        return ef_fail(err, EF_BAD_INPUT, "there is no event at position %" PRId64, x->position);
    event = m->events[x->position - 1];
    if (mark->held_count && !is_held(mark->held, mark->held_count, event->partition))
        return ef_fail(err, EF_BAD_INPUT,
                       "position %" PRId64 " is in partition %" PRId32 ", which is not held",
                       x->position, event->partition);
    if ((st = exception_lane(m, lane, x, &out->lane, err)) != EF_OK)
        return st;
    (void)ef__mem_exception_at(m, x->position, out->lane, &found);
    /* One whose row is gone stays gone, unless this call moves the mark past the queued event; and
     * then one that was filed before stays as it is, with the attempts that it has had. */
    out->filed = mark->held_count == 0;
    out->wanted = out->filed ? !found : found != passes(&m->lanes[lane], mark, event);
    return ef__mem_text_set(&out->error, x->error) ? EF_OK : ef__mem_no_memory(err);
}

static void remove_exception(mem_journal *m, size_t at)
{
    ef__mem_text_free(&m->exceptions[at].error);
    m->exception_count--;
    memmove(&m->exceptions[at], &m->exceptions[at + 1],
            (m->exception_count - at) * sizeof *m->exceptions);
}

/* It is over, unless it was filed again since it was taken: then it is due anew, and one that is
 * removed without a lease stays as it is. */
static void finish_exception(mem_journal *m, size_t at, const ef_exception *x, bool is_leased,
                             int64_t now_us)
{
    mem_exception *row = &m->exceptions[at];

    if (!is_leased && row->filed != x->filed)
        return;
    if (row->filed == x->filed) {
        if (row->skip && !x->skip && m->lanes[row->lane].kind == EF_LANE_KIND_PROJECTION)
            ef__mem_skip_withdraw(m, m->lanes[row->lane].name,
                                  &m->events[row->position - 1]->event);
        if (!row->skip && m->lanes[row->lane].retain_us)
            ef__mem_published_note(m, row->lane, row->position, now_us);
        remove_exception(m, at);
        return;
    }
    ef__mem_text_free(&row->error);
    row->status = EF_ROW_PENDING;
    row->attempts = 0;
    row->trying = false;
    row->due_us = row->updated_us = now_us;
}

static void apply_change(mem_journal *m, const ef_exception *x, mem_change *change, int64_t now_us)
{
    bool found;
    size_t at = ef__mem_exception_at(m, x->position, change->lane, &found);
    mem_exception *row = &m->exceptions[at];

    if (x->status == EF_ROW_DONE) {
        if (found)
            finish_exception(m, at, x, !change->filed, now_us);
        return;
    }
    if (found && change->filed)
        row->filed++;
    if (!change->wanted)
        return;
    if (!found) {
        memmove(row + 1, row, (m->exception_count - at) * sizeof *row);
        *row = (mem_exception){.lane = change->lane, .position = x->position};
        m->exception_count++;
    }
    row->skip = row->skip && !x->skip; /* it was passed where it held; this is about the others */
    /* An operator's skip that came during the last attempt counts: it is passed, not dead. */
    row->status = row->skip && x->status == EF_ROW_DEAD ? EF_ROW_PENDING : x->status;
    row->attempts = x->attempts;
    row->due_us = row->status == EF_ROW_DEAD ? 0 : x->due_us ? x->due_us : now_us;
    row->updated_us = now_us;
    row->trying = x->trying;
    ef__mem_text_free(&row->error);
    row->error = change->error;
    change->error = (ef_str){0};
}

static void move_mark(mem_journal *m, size_t lane, const ef_holding *held, int64_t now_us)
{
    mem_part *part = &m->lanes[lane].parts[held->partition];
    int64_t upto = held->upto;
    bool excepted;

    if (upto <= part->mark)
        return;
    part->mark = upto;
    for (; part->first < part->count && part->rows[part->first] <= upto; part->first++) {
        if (!m->lanes[lane].retain_us)
            continue;
        (void)ef__mem_exception_at(m, part->rows[part->first], lane, &excepted);
        if (!excepted)
            ef__mem_published_note(m, lane, part->rows[part->first], now_us);
    }
    if (part->first == part->count)
        part->first = part->count = 0;
}

/* Room for whatever a call may publish. */
static ef_status reserve_published(mem_journal *m, size_t lane, const ef__marking *mark,
                                   ef_error *err)
{
    size_t most = mark->exception_count;

    if (!m->lanes[lane].retain_us)
        return EF_OK;
    for (size_t i = 0; i < mark->held_count; i++) {
        const mem_part *part = &m->lanes[lane].parts[mark->held[i].partition];
        most += part->count - part->first;
    }
    return ef__mem_published_reserve(m, most, err);
}

/* The note comes first: it is all that can fail of what is left then. */
static ef_status apply_all(mem_journal *m, size_t lane, const ef__marking *mark,
                           mem_change *changes, ef_error *err)
{
    int64_t now_us = ef__mem_now(m);
    size_t lanes_before = m->lane_count, count = mark->exception_count;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = plan_change(m, lane, mark, &mark->exceptions[i], &changes[i], err);
    while (st == EF_OK && m->exception_cap < m->exception_count + count)
        if (!ef__mem_grow((void **)&m->exceptions, &m->exception_cap, m->exception_cap,
                          sizeof *m->exceptions))
            st = ef__mem_no_memory(err);
    if (st == EF_OK)
        st = reserve_published(m, lane, mark, err);
    if (st == EF_OK)
        st = ef__mem_skips_reserve(m, m->skip_count, err);
    if (st == EF_OK && mark->progress.len &&
        !ef__mem_text_set(&m->lanes[lane].progress, mark->progress))
        st = ef__mem_no_memory(err);
    if (st != EF_OK) {
        while (m->lane_count > lanes_before)
            ef__mem_lane_free(&m->lanes[--m->lane_count]);
        return st;
    }
    for (size_t i = 0; i < count; i++)
        apply_change(m, &mark->exceptions[i], &changes[i], now_us);
    for (size_t i = 0; i < mark->held_count; i++)
        move_mark(m, lane, &mark->held[i], now_us);
    m->commits++;
    return EF_OK;
}

static ef_status settle(mem_journal *m, const ef__marking *mark, ef_error *err)
{
    int64_t lane = ef__mem_lane_find(m, mark->lane);
    mem_change *changes;
    ef_status st;

    if (lane < 0)
        return ef__mem_no_lane(mark->lane, err);
    st = check_holdings(m, &m->lanes[lane], mark->held, mark->held_count, err);
    if (st == EF_OK && mark->progress.len)
        st = ef__lane_publishes(mark->lane, m->lanes[lane].kind, err);
    for (size_t i = 0; st == EF_OK && i < mark->held_count; i++)
        st = check_upto(&m->lanes[lane], &mark->held[i], err);
    if (st != EF_OK)
        return st;
    changes = calloc(mark->exception_count + 1, sizeof *changes);
    if (!changes)
        return ef__mem_no_memory(err);
    st = apply_all(m, (size_t)lane, mark, changes, err);
    for (size_t i = 0; i < mark->exception_count; i++)
        ef__mem_text_free(&changes[i].error);
    free(changes);
    return st;
}

ef_status ef__mem_mark(ef_journal *journal, const ef__marking *mark, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = settle(m, mark, err);

    ef__mem_unlock(m);
    return st;
}
