/*
 * publish_key.c - the partitioner: the key of a message, and which messages must keep their order.
 */
#include "publish.h"

#include "../base/json.h"
#include "../base/limits.h"
#include "../base/pair_map.h"

#include <inttypes.h>

#define TREE_BYTES (32u * EF_LIMIT_DATA_BYTES)
#define MAP_BYTES (64u * 1024 * 1024)

/* The value at "data.a.b" as text; {NULL}: no such value, or an object or array. */
static ef_str member_at(const ef_event *event, ef_str path, ef__arena *arena)
{
    ef__arena scratch = EF__ARENA_INIT(TREE_BYTES);
    ef__json *at = NULL;
    ef_str found = {0}, rest = {path.ptr + 5, path.len - 5};
    char name[EF_LIMIT_REASON_BYTES];

    if (ef__json_parse(event->data, EF_LIMIT_DATA_BYTES, &scratch, &at, NULL) != EF_OK)
        at = NULL;
    while (at && rest.len) {
        const char *dot = memchr(rest.ptr, '.', rest.len);
        size_t len = dot ? (size_t)(dot - rest.ptr) : rest.len;
        if (len >= sizeof name)
            break;
        memcpy(name, rest.ptr, len);
        name[len] = '\0';
        at = (ef__json *)ef__json_get(at, name);
        rest = (ef_str){rest.ptr + len + (dot != NULL), rest.len - len - (dot != NULL)};
    }
    if (at && !rest.len && (at->kind == EF__JSON_STRING || at->kind == EF__JSON_NUMBER))
        found = ef__arena_copy(arena, at->text);
    ef__arena_release(&scratch);
    return found;
}

static ef_str key_of(const ef_publisher *publisher, const ef_event *event, ef__arena *arena)
{
    ef_str found;

    if (ef_str_equal(publisher->partition_by, EF_STR("tenant")))
        return event->tenant;
    if (ef_str_equal(publisher->partition_by, EF_STR("type")))
        return event->type;
    if (ef_str_equal(publisher->partition_by, EF_STR("stream")))
        return event->stream;
    found = member_at(event, publisher->partition_by, arena);
    return found.ptr && found.len <= EF_LIMIT_NAME_BYTES ? found : event->stream;
}

/* --- groups: messages are in one group if they share a stream or a key ------------------------ */

static uint32_t find_group(ef__bus_message *messages, uint32_t i)
{
    while (messages[i].group != i) {
        messages[i].group = messages[messages[i].group].group;
        i = messages[i].group;
    }
    return i;
}

/* Joins message `i` with the last one of the same name, if any. */
static bool join_groups(ef__pair_map *map, ef__bus_message *messages, uint32_t i, ef_str tenant,
                        ef_str name)
{
    bool is_new = false;
    uint64_t *first = ef__pair_map_at(map, tenant, name, &is_new);
    uint32_t a, b;

    if (!first)
        return false;
    if (is_new)
        *first = i;
    a = find_group(messages, (uint32_t)*first);
    b = find_group(messages, i);
    messages[a > b ? a : b].group = a > b ? b : a; /* the first message represents the group */
    return true;
}

ef_status ef__publish_keys(const ef_publisher *publisher, ef__bus_message *messages, size_t count,
                           bool grouped, ef__arena *arena, ef_error *err)
{
    ef__pair_map streams = EF__PAIR_MAP_INIT(uint64_t, MAP_BYTES);
    ef__pair_map keys = EF__PAIR_MAP_INIT(uint64_t, MAP_BYTES);
    bool by_stream = ef_str_equal(publisher->partition_by, EF_STR("stream")), fits = true;

    for (uint32_t i = 0; i < count; i++) {
        messages[i].key = key_of(publisher, messages[i].event, arena);
        messages[i].group = i;
    }
    for (uint32_t i = 0; grouped && fits && i < count; i++) {
        const ef_event *event = messages[i].event;
        fits = join_groups(&streams, messages, i, event->tenant, event->stream) &&
               (by_stream || join_groups(&keys, messages, i, event->tenant, messages[i].key));
    }
    for (uint32_t i = 0; grouped && i < count; i++)
        messages[i].group = find_group(messages, i);
    ef__pair_map_release(&streams);
    ef__pair_map_release(&keys);
    return fits ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");
}
