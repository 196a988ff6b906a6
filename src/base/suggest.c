/*
 * suggest.c - suggests a known word for a mistyped one.
 *
 * The distance of two words is the smallest number of single changes between them: a letter
 * inserted, deleted or replaced, or two neighbours swapped. Case is ignored.
 */
#include "settings.h"

enum { WORD_BYTES_MAX = 64 }; /* longer words are not compared: all known words are shorter */

static char small_letter(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t smaller_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Row by row: rows[i % 3][j] is the distance of the first i letters of a and the first j of b. */
static size_t edit_distance(ef_str a, ef_str b)
{
    size_t rows[3][WORD_BYTES_MAX + 1];

    for (size_t j = 0; j <= b.len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            char x = small_letter(a.ptr[i - 1]);
            char y = small_letter(b.ptr[j - 1]);
            size_t d = smaller_of(above[j - 1] + (x != y), smaller_of(above[j], row[j - 1]) + 1);

            if (i > 1 && j > 1 && x == small_letter(b.ptr[j - 2]) &&
                y == small_letter(a.ptr[i - 2]))
                d = smaller_of(d, two_above[j - 2] + 1);
            row[j] = d;
        }
    }
    return rows[a.len % 3][b.len];
}

const char *ef__suggest(ef_str word, const char *const *words, size_t count)
{
    const char *nearest = NULL;
    /* About a third of the letters may be wrong: beyond that a suggestion is arbitrary. */
    size_t nearest_distance = (word.len + 1) / 3 + 1;

    if (word.len > WORD_BYTES_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        ef_str candidate = ef_str_from(words[i]);
        if (candidate.len > WORD_BYTES_MAX)
            continue;
        size_t d = edit_distance(word, candidate);
        if (d < nearest_distance) {
            nearest = words[i];
            nearest_distance = d;
        }
    }
    return nearest;
}
