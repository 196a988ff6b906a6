/*
 * call_text.c - functions of texts. Texts are UTF-8 and are counted in characters; the texts of
 * events, programs and views are valid UTF-8, because the JSON validator checked them.
 */
#include "call.h"

#include "../base/utf8.h"

static ef_str arg_text(const ef__call *call, size_t i)
{
    return ef__value_text(call->args[i]);
}

static ef_status map_bytes(ef__call *call, char from, char to, int by, ef__value *out)
{
    ef_status st = ef__eval_text(call->ev, call->expr, arg_text(call, 0), out);

    if (st != EF_OK)
        return st;
    char *bytes = (char *)(uintptr_t)out->as.text; /* the copy is ours */
    for (uint32_t i = 0; i < out->len; i++)
        if (bytes[i] >= from && bytes[i] <= to)
            bytes[i] = (char)(bytes[i] + by);
    return EF_OK;
}

ef_status ef__call_lower(ef__call *call, ef__value *out)
{
    return map_bytes(call, 'A', 'Z', 'a' - 'A', out);
}

ef_status ef__call_upper(ef__call *call, ef__value *out)
{
    return map_bytes(call, 'a', 'z', 'A' - 'a', out);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

ef_status ef__call_trim(ef__call *call, ef__value *out)
{
    ef_str text = arg_text(call, 0);

    while (text.len > 0 && is_space(text.ptr[0])) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && is_space(text.ptr[text.len - 1]))
        text.len--;
    *out = ef__value_string(text);
    return EF_OK;
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

static int64_t count_characters(ef_str text)
{
    int64_t count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += begins_character(text.ptr[i]);
    return count;
}

ef_status ef__call_length(ef__call *call, ef__value *out)
{
    *out = ef__value_int(count_characters(arg_text(call, 0)));
    return EF_OK;
}

/* The offset of character `index`; the length of the text when there are fewer. */
static size_t character_place(ef_str text, int64_t index)
{
    size_t i = 0;

    for (; i < text.len; i++)
        if (begins_character(text.ptr[i]) && index-- == 0)
            break;
    return i;
}

ef_status ef__call_substr(ef__call *call, ef__value *out)
{
    ef_str text = arg_text(call, 0);
    int64_t from;
    int64_t count = INT32_MAX;
    bool ok;

    *out = EF__NULL;
    ef_status st = ef__call_int(call, 1, -INT32_MAX, INT32_MAX, &from, &ok);
    if (ok && call->count > 2)
        st = ef__call_int(call, 2, 0, INT32_MAX, &count, &ok);
    if (!ok)
        return st;
    if (from < 0) {
        from += count_characters(text);
        from = from < 0 ? 0 : from;
    }
    size_t begin = character_place(text, from);
    text = (ef_str){text.ptr + begin, text.len - begin};
    text.len = character_place(text, count);
    *out = ef__value_string(text);
    return EF_OK;
}

ef_status ef__call_starts_with(ef__call *call, ef__value *out)
{
    ef_str text = arg_text(call, 0);
    ef_str part = arg_text(call, 1);

    *out = ef__value_bool(text.len >= part.len && memcmp(text.ptr, part.ptr, part.len) == 0);
    return EF_OK;
}

ef_status ef__call_ends_with(ef__call *call, ef__value *out)
{
    ef_str text = arg_text(call, 0);
    ef_str part = arg_text(call, 1);

    *out = ef__value_bool(text.len >= part.len &&
                          memcmp(text.ptr + text.len - part.len, part.ptr, part.len) == 0);
    return EF_OK;
}

ef_status ef__call_contains(ef__call *call, ef__value *out)
{
    ef__value item = call->args[1];

    if (call->args[0].kind == EF__VALUE_ARRAY) {
        *out = ef__value_bool(ef__value_in_array(call->args[0], item));
        return EF_OK;
    }
    if (item.kind != EF__VALUE_STRING)
        return ef__eval_mistake(call->ev, call->exprs[1], call->args[1], out,
                                "contains needs a text to search in a text");
    *out = ef__value_bool(ef__call_find(arg_text(call, 0), 0, ef__value_text(item)) >= 0);
    return EF_OK;
}

ef_status ef__call_split(ef__call *call, ef__value *out)
{
    ef_str text = arg_text(call, 0);
    ef_str separator = arg_text(call, 1);
    size_t count = 1;
    size_t at = 0;
    ptrdiff_t found;

    if (separator.len == 0)
        return ef__eval_wrong(call->ev, call->exprs[1], out,
                              "split needs a separator that is not empty");
    for (; (found = ef__call_find(text, at, separator)) >= 0; at = (size_t)found + separator.len)
        count++;
    ef_status st = ef__eval_charge(call->ev, call->expr, count);
    ef__array *array = st == EF_OK ? ef__array_make(call->ev->arena, count) : NULL;
    if (!array)
        return st == EF_OK ? ef__eval_no_memory(call->ev) : st;
    for (at = 0; (found = ef__call_find(text, at, separator)) >= 0;
         at = (size_t)found + separator.len)
        ef__array_put(array, ef__value_string((ef_str){text.ptr + at, (size_t)found - at}));
    ef__array_put(array, ef__value_string((ef_str){text.ptr + at, text.len - at}));
    *out = ef__value_array(array);
    return ef__eval_charge_output(call->ev, call->expr, array->weight);
}

ef_status ef__call_join(ef__call *call, ef__value *out)
{
    EF__AUTO(ef__buf) buf = EF__BUF_INIT(EF_FOLD_LIMIT_OUTPUT_BYTES);
    ef__value_walk walk = ef__value_walk_of(call->args[0]);
    ef_status st = EF_OK;

    while (st == EF_OK && ef__value_next(&walk)) {
        ef_str text;
        if (walk.value.kind != EF__VALUE_STRING && !ef__value_is_number(walk.value)) {
            return ef__eval_mistake(call->ev, call->exprs[0], call->args[0], out,
                                    "join needs texts or numbers, item %zu is %s", walk.next - 1,
                                    ef__value_kind_name(walk.value));
        }
        st = ef__eval_to_text(call->ev, call->exprs[0], walk.value, &text);
        if (walk.next > 1)
            ef__buf_add_str(&buf, arg_text(call, 1));
        ef__buf_add_str(&buf, text);
    }
    if (st == EF_OK)
        return ef__call_take(call, &buf, out);
    return st;
}

ef_status ef__call_replace(ef__call *call, ef__value *out)
{
    ef__buf buf = EF__BUF_INIT(EF_FOLD_LIMIT_OUTPUT_BYTES);
    ef_str text = arg_text(call, 0);
    ef_str from = arg_text(call, 1);
    size_t at = 0;
    ptrdiff_t found;

    if (from.len == 0)
        return ef__eval_wrong(call->ev, call->exprs[1], out,
                              "replace needs a text that is not empty");
    for (; (found = ef__call_find(text, at, from)) >= 0; at = (size_t)found + from.len) {
        ef__buf_add(&buf, text.ptr + at, (size_t)found - at);
        if (!ef__buf_add_str(&buf, arg_text(call, 2)))
            break;
    }
    ef__buf_add(&buf, text.ptr + at, text.len - at);
    return ef__call_take(call, &buf, out);
}

ef_status ef__call_text(ef__call *call, ef__value *out)
{
    ef_str text;
    ef_status st = ef__eval_to_text(call->ev, call->exprs[0], call->args[0], &text);

    *out = ef__value_string(text);
    return st;
}

ef_status ef__call_format(ef__call *call, ef__value *out)
{
    EF__AUTO(ef__buf) buf = EF__BUF_INIT(EF_FOLD_LIMIT_OUTPUT_BYTES);
    ef_str format = arg_text(call, 0);
    size_t next = 1;
    size_t at = 0;
    ef_status st = EF_OK;
    ptrdiff_t found;

    for (; st == EF_OK && (found = ef__call_find(format, at, EF_STR("{}"))) >= 0;
         at = (size_t)found + 2, next++) {
        ef_str text = EF_STR("");
        ef__buf_add(&buf, format.ptr + at, (size_t)found - at);
        if (next < call->count)
            st = ef__eval_to_text(call->ev, call->exprs[next], call->args[next], &text);
        ef__buf_add_str(&buf, text);
    }
    if (st != EF_OK || next != call->count) {
        return st != EF_OK
                   ? st
                   : ef__eval_mistake(call->ev, call->exprs[0], call->args[0], out,
                                      "it has %zu {} for %zu values", next - 1, call->count - 1);
    }
    ef__buf_add(&buf, format.ptr + at, format.len - at);
    return ef__call_take(call, &buf, out);
}

ef_status ef__call_pad(ef__call *call, ef__value *out)
{
    ef__buf buf = EF__BUF_INIT(EF_FOLD_LIMIT_OUTPUT_BYTES);
    ef_str fill = call->count > 2 ? arg_text(call, 2) : EF_STR(" ");
    ef_str text;
    int64_t length;
    bool ok;

    *out = EF__NULL;
    ef_status st = ef__call_int(call, 1, 0, 10000, &length, &ok);
    if (!ok)
        return st;
    if (count_characters(fill) != 1)
        return ef__eval_mistake(call->ev, call->exprs[2], call->args[2], out,
                                "pad needs one character");
    st = ef__eval_to_text(call->ev, call->exprs[0], call->args[0], &text);
    if (st != EF_OK)
        return st;
    for (int64_t missing = length - count_characters(text); missing > 0; missing--)
        ef__buf_add_str(&buf, fill);
    ef__buf_add_str(&buf, text);
    return ef__call_take(call, &buf, out);
}
