/*
 * eval.h - evaluates expressions and statements of a compiled program. Internal to this module.
 *
 * There are two modes. A program is strict: a value that it cannot process (a missing number, a
 * wrong kind, a division by zero) fails the event with a message that names the location, the path
 * and the value. A query is lenient: the same results in null, so that the row does not match.
 * Budgets end both.
 */
#pragma once

#include "ast.h"
#include "change.h"
#include "limits.h"
#include "peek.h"

#include <everfold/clock.h>
#include <everfold/event.h>

typedef struct ef__eval ef__eval;

/* A view that statements write to: its data, and its size as text. First member of
 * ef__decoded_view. */
typedef struct ef__target {
    ef__value root; /* an object; MISSING when there is no view */
    int64_t bytes;
    uint64_t written_by; /* the event that last wrote to it */
} ef__target;

/* Callbacks of the evaluator. */
typedef struct ef__eval_ops {
    /* The view of that id; `*out` is good for the event. */
    ef_status (*select)(ef__eval *ev, ef_str view_id, ef__target **out);
    /* Another projection's view as JSON bytes, in ev->arena or otherwise good for the event; ptr
     * NULL when there is none. */
    ef_status (*lookup)(ef__eval *ev, ef_str projection, ef_str view_id, ef_str *out);
} ef__eval_ops;

struct ef__eval {
    const ef__eval_ops *ops;
    ef_str source; /* of the program or filter: messages quote it */
    const ef_event *event;
    ef_str type;    /* of the event, after aliases */
    int64_t schema; /* of its data, after upcasts */
    ef__value data;
    int64_t data_bytes;
    ef__value meta;
    ef__value time; /* as text, formatted on first use */
    char time_text[EF_TIME_TEXT_MAX];
    bool data_read;   /* data was parsed as a whole */
    bool data_peeked; /* `peek` has begun */
    ef__peek peek;
    bool meta_read;

    ef__target *view; /* that paths and statements mean; NULL for none */
    ef_str view_id;   /* queries */
    int64_t last_seq; /* queries */

    ef__arena *arena;     /* for what expressions make: emptied after the event */
    ef__changes *changes; /* NULL in queries */
    uint64_t stamp;       /* of the event */
    int64_t steps_left;
    int64_t output_left;
    int64_t lookups_left;
    ef__value *slots; /* let and loop names: EF_FOLD_LIMIT_SLOTS */
    ef__value *memos; /* cached values of this event; kind EF__MEMO_NONE: not yet. NULL where
                         nothing is cached: upcasts (data changes), view ids, queries */
    bool lenient;
    bool fatal;    /* the failure is not the program's: memory, or the store */
    uint32_t line; /* of the statement or expression that failed */
    ef_error *err;
};

enum { EF__MEMO_NONE = 0xFF };

/* The value of an expression: valid until the event ends; an array or object of the view only until
 * the next statement (see ef__changes_hold). */
ef_status ef__eval_expr(ef__eval *ev, const ef__expr *expr, ef__value *out);
/* Is it true? null counts as false; anything but a boolean is a mistake. */
ef_status ef__eval_truth(ef__eval *ev, const ef__expr *expr, bool *out);
/* A text or number as the id of a view: 1 to 255 bytes. */
ef_status ef__eval_view_id(ef__eval *ev, const ef__expr *expr, ef_str *out);
ef_status ef__eval_id_of(ef__eval *ev, const ef__expr *expr, ef__value v, ef_str *out);
ef_status ef__eval_call(ef__eval *ev, const ef__expr *call, ef__value *out);
/* + - * / % on two values. */
ef_status ef__eval_math(ef__eval *ev, const ef__expr *expr, const ef__expr *left_expr,
                        const ef__expr *right_expr, ef__expr_kind kind, ef__value a, ef__value b,
                        ef__value *out);

/* The data of the event, parsed on first use. */
ef_status ef__eval_data(ef__eval *ev);

/* Run the statements of a block whose slots and memos are fresh. */
ef_status ef__run_block(ef__eval *ev, const ef__block *block);
/* Clears the memos of the previous block. */
void ef__eval_fresh(ef__eval *ev, const ef__block *block);

/* A mistake at `expr`: "PATH is VALUE, WHAT". In lenient mode it returns null and EF_OK instead. */
ef_status ef__eval_mistake(ef__eval *ev, const ef__expr *expr, ef__value v, ef__value *out,
                           const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The same without a value to show. */
ef_status ef__eval_wrong(ef__eval *ev, const ef__expr *expr, ef__value *out, const char *format,
                         ...) __attribute__((format(printf, 4, 5)));
/* A limit was reached, or memory ran out (fatal): an error in both modes. */
ef_status ef__eval_limit(ef__eval *ev, const ef__span *span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
ef_status ef__eval_no_memory(ef__eval *ev);
/* Count `steps` of work, or `bytes` of output. */
ef_status ef__eval_charge(ef__eval *ev, const ef__expr *expr, size_t steps);
ef_status ef__eval_charge_output(ef__eval *ev, const ef__expr *expr, size_t bytes);
/* The steps of reading all of a value. */
static inline size_t ef__eval_cost(ef__value v)
{
    return v.kind < EF__VALUE_STRING ? 0 : ef__value_weight(v) / 32;
}

/* A text of the arena. EF_NO_MEMORY, or the output budget */
ef_status ef__eval_text(ef__eval *ev, const ef__expr *expr, ef_str text, ef__value *out);
/* Canonical text of a value; a text as it is. */
ef_status ef__eval_to_text(ef__eval *ev, const ef__expr *expr, ef__value v, ef_str *out);
/* A number as a value. */
ef_status ef__eval_number(ef__eval *ev, const ef__number *number, ef__value *out);
