/*
 * test_json_oracle.c - compares our JSON parser with jansson on random documents, valid and
 * damaged.
 *
 * Known differences, which are not compared:
 *   - our limits (EF_TOO_LARGE): jansson has none on number length or keys, and 2048 on depth;
 *   - \u0000, which we refuse everywhere and jansson accepts in values with JSON_ALLOW_NUL;
 *   - a NUL byte after the value, which ends the text for jansson and is refused by us;
 *   - integers past int64 and reals past double, which jansson refuses and we keep as text.
 * Otherwise they must agree on what is JSON, and on every kind, key, string and integer in it.
 */
#include "test.h"

#if __has_include(<jansson.h>)

#include "../../src/base/json.h"

#include <jansson.h>

#include <stdlib.h>

enum { ROUNDS = 30000, TEXT_BYTES = 64 * 1024, TREE_BYTES = 16 * 1024 * 1024 };

static uint64_t random_state;

static unsigned pick(unsigned below)
{
    uint64_t x = random_state += UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return (unsigned)((x ^ x >> 31) % below);
}

#define PICK_TEXT(table) table[pick(sizeof(table) / sizeof(table[0]))]

static void add_space(ef__buf *out)
{
    static const char *const spaces[] = {"", "", "", "", " ", "\n", "\t\r", "  "};

    ef__buf_add_text(out, PICK_TEXT(spaces));
}

/* Few different parts, so that keys do meet. */
static void add_string(ef__buf *out)
{
    static const char *const parts[] = {"a",
                                        "b",
                                        "\\u0061",
                                        "\\n",
                                        "\\u000a",
                                        "\\/",
                                        "/",
                                        "\\\"",
                                        "\\\\",
                                        "\xC3\xA9",
                                        "\\u00e9",
                                        "\xE2\x82\xAC",
                                        "\\u20AC",
                                        "\xF0\x9F\x98\x80",
                                        "\\uD83D\\uDE00",
                                        "\\uffff",
                                        "key",
                                        "eight-by",
                                        "\\uD83D",
                                        "\\u0000",
                                        "\x7F"};
    unsigned count = pick(4);

    ef__buf_add_char(out, '"');
    for (unsigned i = 0; i < count; i++) {
        unsigned part = pick(pick(20) ? 18 : 21);
        ef__buf_add_text(out, parts[part]);
    }
    ef__buf_add_char(out, '"');
}

static void add_scalar(ef__buf *out)
{
    static const char *const scalars[] = {"null",
                                          "true",
                                          "false",
                                          "0",
                                          "-0",
                                          "1",
                                          "-17",
                                          "1.5",
                                          "-0.25e+3",
                                          "1E5",
                                          "1e-10",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "9223372036854775808",
                                          "1e999",
                                          "01",
                                          "1.",
                                          "-",
                                          "nul"};

    if (pick(2))
        add_string(out);
    else
        ef__buf_add_text(out, scalars[pick(pick(20) ? 13 : 19)]);
}

static void add_value(ef__buf *out, unsigned depth)
{
    unsigned kind = depth > 5 ? 2 : pick(4);

    add_space(out);
    if (kind > 1) {
        add_scalar(out);
        add_space(out);
        return;
    }
    unsigned count = pick(pick(10) ? 4 : 25);
    ef__buf_add_char(out, kind ? '{' : '[');
    for (unsigned i = 0; i < count; i++) {
        if (i > 0)
            ef__buf_add_char(out, ',');
        if (kind) {
            add_space(out);
            if (pick(8))
                ef__buf_printf(out, "\"%s%u\"", pick(2) ? "k" : "\\u006b", i);
            else
                add_string(out);
            add_space(out);
            ef__buf_add_char(out, ':');
        }
        add_value(out, depth + 1 + count / 8);
    }
    add_space(out);
    ef__buf_add_char(out, kind ? '}' : ']');
    add_space(out);
}

/* Changes, removes or inserts a byte or a piece, sometimes several. */
static void damage(ef__buf *text)
{
    static const char pieces[] =
        "{}[]:,\"\\u0eE+-.19 \n\x01\x7F\x80\xBF\xC0\xC3\xE0\xED\xA0\xF4\xFF";
    unsigned times = 1 + pick(3);

    for (unsigned i = 0; i < times && text->len > 0; i++) {
        size_t at = pick((unsigned)text->len);
        char byte = pieces[pick(sizeof(pieces))]; /* its NUL too */
        switch (pick(3)) {
        case 0:
            text->ptr[at] = byte;
            break;
        case 1:
            memmove(text->ptr + at, text->ptr + at + 1, text->len - at);
            text->len--;
            break;
        default:
            ef__buf_add_char(text, byte);
            memmove(text->ptr + at + 1, text->ptr + at, text->len - 1 - at);
            text->ptr[at] = byte;
        }
    }
}

static bool same_string(ef_str ours, const json_t *theirs)
{
    return ef_str_equal(ours, (ef_str){json_string_value(theirs), json_string_length(theirs)});
}

static bool same_tree(const ef__json *ours, const json_t *theirs);

static bool same_children(const ef__json *ours, const json_t *theirs)
{
    size_t index = 0;

    for (const ef__json *child = ours->first; child; child = child->next) {
        const json_t *twin = json_array_get(theirs, index++);
        if (ours->kind == EF__JSON_OBJECT) {
            char *key = strndup(child->key.ptr, child->key.len);
            twin = json_object_get(theirs, key);
            free(key);
        }
        if (!twin || !same_tree(child, twin))
            return false;
    }
    return true;
}

static bool same_tree(const ef__json *ours, const json_t *theirs)
{
    int64_t value;

    switch (ours->kind) {
    case EF__JSON_NULL:
        return json_is_null(theirs);
    case EF__JSON_TRUE:
        return json_is_true(theirs);
    case EF__JSON_FALSE:
        return json_is_false(theirs);
    case EF__JSON_STRING:
        return json_is_string(theirs) && same_string(ours->text, theirs);
    case EF__JSON_NUMBER:
        if (ef__json_int64(ours, &value) == 0)
            return json_is_integer(theirs) && json_integer_value(theirs) == value;
        return json_is_real(theirs);
    case EF__JSON_ARRAY:
        return json_is_array(theirs) && json_array_size(theirs) == ours->count &&
               same_children(ours, theirs);
    default:
        return json_is_object(theirs) && json_object_size(theirs) == ours->count &&
               same_children(ours, theirs);
    }
}

typedef struct tally {
    int accepted;
    int refused;
    int set_aside;
} tally;

static void compare(ef_str text, uint64_t seed, tally *counts)
{
    ef__arena arena = EF__ARENA_INIT(TREE_BYTES);
    ef_error err = EF_ERROR_INIT;
    json_error_t error;
    ef__json *ours = NULL;
    ef_status st = ef__json_parse(text, TEXT_BYTES, &arena, &ours, &err);
    json_t *theirs = json_loadb(text.ptr, text.len,
                                JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);

    bool has_nul = text.len > 0 && memchr(text.ptr, '\0', text.len);
    if (has_nul && st == EF_OK)
        fail_msg("seed %llu: a NUL byte was let in", (unsigned long long)seed);
    else if (has_nul || st == EF_TOO_LARGE || memmem(text.ptr, text.len, "\\u0000", 6) ||
             (!theirs && json_error_code(&error) == json_error_numeric_overflow))
        counts->set_aside++;
    else if ((st == EF_OK) != (theirs != NULL))
        fail_msg("seed %llu: ours: %s %s; jansson: %s\n%.*s", (unsigned long long)seed,
                 ef_status_describe(st)->name, err.text, theirs ? "ok" : error.text,
                 EF_STR_ARG(text));
    else if (theirs && !same_tree(ours, theirs))
        fail_msg("seed %llu: another tree\n%.*s", (unsigned long long)seed, EF_STR_ARG(text));
    else
        *(theirs ? &counts->accepted : &counts->refused) += 1;
    json_decref(theirs);
    ef__arena_release(&arena);
}

TEST(jansson_agrees_on_random_documents_whole_and_damaged)
{
    tally counts = {0, 0, 0};

    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        ef__buf text = EF__BUF_INIT(TEXT_BYTES);
        random_state = seed;
        add_value(&text, 0);
        if (pick(2))
            damage(&text);
        if (!text.failed)
            compare(ef__buf_str(&text), seed, &counts);
        ef__buf_release(&text);
    }
    print_message("# %d accepted, %d refused, %d set aside\n", counts.accepted, counts.refused,
                  counts.set_aside);
    /* Guards against a generator that compares nothing of one kind. */
    CHECK(counts.accepted > ROUNDS / 10);
    CHECK(counts.refused > ROUNDS / 10);
    CHECK(counts.set_aside < ROUNDS / 5);
}

TEST_MAIN(TEST_CASE(jansson_agrees_on_random_documents_whole_and_damaged))

#else

int main(void)
{
    puts("1..0 # SKIP jansson, the oracle, is not installed");
    return 0;
}

#endif
