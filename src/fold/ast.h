/*
 * ast.h - a fold program as a tree, with every name resolved.
 *
 * The parser builds it, check.c checks it, dag.c numbers its expressions, the evaluator walks it.
 * All of it is in the program's arena and never changes once the program is compiled, so threads
 * may share it. Lists are linked by `next`, in the order of the source.
 *
 * The evaluator relies on these facts after a compile without errors:
 *  - a path's root is resolved: ROOT_VIEW only where there is a view, ROOT_DATA and the other event
 *    fields only where there is an event (not in a migrate block, not in a query);
 *  - the target of a statement is an EF__EXPR_PATH whose root is ROOT_VIEW (handlers, migrate) or
 *    ROOT_DATA (upcast);
 *  - slots are dense, 0 to slot_count - 1 of their block; each let or loop name has one slot, which
 *    is written before it is read;
 *  - blocks nest at most 2 * EF_FOLD_LIMIT_DEPTH deep and the height of an expression is at most
 *    EF_FOLD_LIMIT_HEIGHT, so recursion is safe;
 *  - arguments of a call are between the function's min and max.
 */
#pragma once

#include "fold.h"
#include "function.h"

#include "../base/arena.h"
#include "../base/number.h"

#include <everfold/fold.h>
#include <everfold/str.h>

typedef enum ef__expr_kind {
    EF__EXPR_NULL,
    EF__EXPR_BOOL,    /* .truth */
    EF__EXPR_NUMBER,  /* .number */
    EF__EXPR_TEXT,    /* .text, unescaped */
    EF__EXPR_ARRAY,   /* .args: the items */
    EF__EXPR_OBJECT,  /* .args: the values, each with .key; keys are distinct */
    EF__EXPR_PATH,    /* .root, .slot, .base, .steps */
    EF__EXPR_LOOKUP,  /* .text: projection, .args: the view id; the view's data or null */
    EF__EXPR_CALL,    /* .function, .args */
    EF__EXPR_NOT,     /* .args: 1 */
    EF__EXPR_NEGATE,  /* .args: 1 */
    EF__EXPR_IF,      /* .args: condition, then, else */
    EF__EXPR_DEFAULT, /* A ?? B. .args: 2, as for all that follow; B is evaluated if A is null */
    EF__EXPR_AND,     /* and, or: the right side is evaluated only when it decides */
    EF__EXPR_OR,
    EF__EXPR_EQ,
    EF__EXPR_NE,
    EF__EXPR_LT,
    EF__EXPR_LE,
    EF__EXPR_GT,
    EF__EXPR_GE,
    EF__EXPR_IN,  /* item in array; text in text; key in object */
    EF__EXPR_ADD, /* numbers; two texts are joined */
    EF__EXPR_SUB,
    EF__EXPR_MUL,
    EF__EXPR_DIV,
    EF__EXPR_MOD
} ef__expr_kind;

/* The root of a path. */
typedef enum ef__root {
    EF__ROOT_VIEW, /* the view's data; no step at all is the whole of it */
    EF__ROOT_DATA,
    EF__ROOT_META,
    EF__ROOT_TYPE, /* after aliases */
    EF__ROOT_STREAM,
    EF__ROOT_SEQ,
    EF__ROOT_POSITION,
    EF__ROOT_TIME, /* RFC 3339 text */
    EF__ROOT_TENANT,
    EF__ROOT_SCHEMA, /* the event's schema version, after upcasts */
    EF__ROOT_ID,
    EF__ROOT_LET,                 /* .slot */
    EF__ROOT_LOOP,                /* .slot */
    EF__ROOT_VIEW_ID,             /* queries only */
    EF__ROOT_LAST_EVENT_SEQUENCE, /* queries only */
    EF__ROOT_EXPR                 /* .base: lookup(…).total, first(data.items).sku */
} ef__root;

/* The dependencies of an expression. A let or loop name has the dependencies of its value. */
enum {
    EF__USES_VIEW = 1,  /* changes when a statement writes */
    EF__USES_EVENT = 2, /* the same for the whole event */
    EF__USES_LOOP = 4,  /* changes with each round */
    EF__USES_LET = 8,
    EF__USES_LOOKUP = 16 /* another projection's view */
};

typedef struct ef__expr ef__expr;
typedef struct ef__path_step ef__path_step;
typedef struct ef__stmt ef__stmt;

struct ef__path_step {
    ef__path_step *next;
    ef__span span;
    ef_str field;   /* .field and ["key"]; ptr NULL when it is an index or has to be computed */
    int64_t index;  /* [n]: from 0; negative counts from the end. Without field and expr */
    ef__expr *expr; /* [EXPR]: a text is a field, a whole number an index. NULL otherwise */
};

struct ef__expr {
    ef__expr_kind kind;
    ef__span span;
    uint32_t uses;  /* EF__USES_… */
    uint32_t kinds; /* EF__KIND_… that it may result in, as far as is known statically */
    int32_t height; /* 1 for a leaf; at most EF_FOLD_LIMIT_HEIGHT */
    int32_t node;   /* number in the DAG of its block; equal expressions have the same number */
    int32_t memo; /* slot that caches its value for the event, or -1. Only for expressions that are
                     used more than once and depend only on the event */
    ef__expr *next; /* next argument, item or value */
    ef__expr *args;
    size_t arg_count;
    ef_str key;     /* of a value of an object */
    uint32_t place; /* index of `key` among the sorted keys */
    bool key_plain; /* `key` prints without an escape */
    bool truth;
    ef__number number;
    ef_str text;
    bool text_plain;
    const ef__function *function;
    ef__root root;
    int32_t slot;
    ef__expr *base;
    ef__path_step *steps;
    size_t step_count;
    bool spelled; /* a view path that was written with its root: view.total */
};

typedef enum ef__stmt_kind {
    EF__STMT_SET,      /* target = value */
    EF__STMT_INCREASE, /* target += value; a missing target counts as 0 */
    EF__STMT_DECREASE, /* target -= value */
    EF__STMT_PUSH,     /* target push value [keep N]: at the end; the oldest are removed */
    EF__STMT_ADD,      /* target add value: no duplicates, in rising order */
    EF__STMT_REMOVE,   /* target remove value */
    EF__STMT_UNSET,    /* unset target */
    EF__STMT_DELETE,   /* the view is deleted; a later write creates a new one */
    EF__STMT_LET,      /* let name = value */
    EF__STMT_IF,       /* if value body [else otherwise] */
    EF__STMT_FOR,      /* for name in value [when when] [view view_id] body */
    EF__STMT_VIEW      /* view view_id body */
} ef__stmt_kind;

struct ef__stmt {
    ef__stmt_kind kind;
    ef__span span; /* its first line */
    ef__stmt *next;
    int32_t number; /* from 0 in its block, in the order of the source: for explain */
    ef__expr *target;
    ef__expr *value;
    int64_t keep;      /* PUSH: how many stay; 0 for all */
    ef_str name;       /* LET, FOR */
    int32_t slot;      /* LET, FOR */
    ef__expr *when;    /* FOR, or NULL. Sees the loop name, and the view outside the loop */
    ef__expr *view_id; /* FOR, or NULL; VIEW. Never reads a view */
    ef__stmt *body;
    ef__stmt *otherwise;
};

/* Statements that run together: a handler, an upcast or a migration. */
typedef struct ef__block {
    ef__stmt *first;
    int32_t stmt_count;
    int32_t slot_count; /* let and loop names */
    int32_t node_count; /* of the DAG */
    int32_t memo_count;
} ef__block;

typedef struct ef__pattern ef__pattern;

struct ef__pattern {
    ef__pattern *next;
    ef__span span;
    ef_str text; /* the type, or the part before the * */
    bool prefix; /* order.* has text "order.", * has text "" */
};

typedef struct ef__handler ef__handler;

/* The first one whose pattern matches and whose `when` holds handles the event; no other does. */
struct ef__handler {
    ef__handler *next;
    ef__span span;
    int32_t number; /* from 0, in the order of the source */
    ef__pattern *patterns;
    ef__expr *when; /* or NULL */
    bool when_uses_view;
    bool uses_view; /* a statement or `when` touches the event's own view: the program's view_id is
                      needed. False when all is done in view blocks: then it is not even computed */
    ef__block block;
};

/* A step from schema N to schema M, which is above N: upcast TYPE from N to M changes the data of
 * an event, migrate from N to M a view. */
typedef struct ef__step ef__step;

struct ef__step {
    ef__step *next;
    ef__span span;
    ef_str type; /* UPCAST: an exact type, after aliases */
    int64_t from, to;
    ef__block block; /* an upcast's targets are ROOT_DATA; a migration's ROOT_VIEW: no event, no
                        lookup, no delete */
};

/* alias OLD = NEW: events stored as OLD are handled as NEW. One step: NEW is no OLD of another. */
typedef struct ef__alias ef__alias;

struct ef__alias {
    ef__alias *next;
    ef__span span;
    ef_str from, to;
};

/* A declared index, and the other projections that the program reads by lookup (distinct). */
typedef struct ef__index ef__index;

struct ef__index {
    ef__index *next;
    ef__expr *path; /* ROOT_VIEW, every step a field */
    ef_str text;    /* "stats.total" */
};

typedef struct ef__lookup_name ef__lookup_name;

struct ef__lookup_name {
    ef__lookup_name *next;
    ef__span span; /* of the first */
    ef_str name;
};

typedef enum ef__fold_order { EF__FOLD_BY_STREAM, EF__FOLD_BY_LOG } ef__fold_order;

/* What a program does with events of a type. */
typedef struct ef__type_route {
    ef_str stored;                /* the type as events have it */
    ef_str type;                  /* after aliases */
    const ef__handler **handlers; /* in the order of trying; ends in NULL */
    bool by_prefix;               /* of any other type: only those whose prefix it has */
    bool upcasts;                 /* there are some for it */
} ef__type_route;

/* Opaque as ef__program in fold.h; complete for the files of this module. */
struct ef__program {
    ef__arena arena;
    ef_str file;   /* for messages */
    ef_str source; /* a copy */
    ef_str name;
    ef__span name_span;
    int64_t version;
    ef__fold_order order;
    int64_t schema;    /* of the view; default 1 */
    ef__expr *view_id; /* never NULL: default `stream` */
    int32_t view_id_nodes;
    ef__index *indexes;
    ef__handler *handlers;
    ef__step *upcasts;
    ef__step *migrations;
    ef__alias *aliases;
    ef__lookup_name *lookups;
    int32_t handler_count;
    ef__type_route *routes; /* of the types that it names, sorted */
    size_t route_count;
    ef__type_route others; /* of any other type */
    char hash[65];         /* SHA-256 of the tokens, in hexadecimal */
    const ef_str *fields;  /* of the view, that a statement writes: sorted; see check_names.c */
    size_t field_count;
    bool any_field; /* the fields cannot be determined from the text */
    ef_fold_fn fn;  /* a C projection: handles the events instead of the handlers */
    void *fn_context;
};

/* Fills in the routes; false when memory ran out. route.c */
bool ef__program_compile_routes(ef__program *program);
/* Of events stored with this type; never NULL. */
const ef__type_route *ef__program_route(const ef__program *program, ef_str stored);
/*
 * The handlers of the route in the order of trying; `*at` starts as 0, NULL is the end. The first
 * one whose `when` holds handles the event.
 */
const ef__handler *ef__route_next(const ef__type_route *route, ef_str stored, size_t *at);
/* The step that starts at schema `from`, of an upcast's type or "", or NULL. */
const ef__step *ef__step_from(const ef__step *first, ef_str type, int64_t from);

/* A query's expression; fold.h shows it as an opaque ef__filter. */
struct ef__filter {
    ef__arena arena;
    ef_str source;
    ef__expr *expr;
    int32_t node_count;
};
