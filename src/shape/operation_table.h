/*
 * operation_table.h - macros for the entries of tables of operations.
 */
#pragma once

#include "operation.h"

#define TEXT(type, member, name, place, ...) EF__INPUT(type, member, name, place, TEXT, __VA_ARGS__)
#define INT(type, member, name, place, low, high, ...)                                             \
    EF__INPUT(type, member, name, place, INT, .min = (low), .max = (high), __VA_ARGS__)
#define BOOL(type, member, name, place, ...) EF__INPUT(type, member, name, place, BOOL, __VA_ARGS__)
#define TIME(type, member, name, place) EF__INPUT(type, member, name, place, TIME, )
#define TENANT(type, member) EF__INPUT(type, member, "tenant", TENANT, TEXT, )
#define ANY_TENANT(type, member) EF__INPUT(type, member, "any_tenant", ANY_TENANT, BOOL, )
#define ACTOR(type, member) EF__INPUT(type, member, "actor", ACTOR, TEXT, )
#define END EF__INPUT_END

/* Defines an operation. */
#define OPERATION(name, ...) const ef__operation ef__op_##name = {__VA_ARGS__}

/* An object by the name in the path. */
#define NAMED TEXT(ef__object_request, name, "name", PATH), ACTOR(ef__object_request, actor)
#define REASON TEXT(ef__object_request, reason, "reason", MEMBER)

#define INPUTS(...)                                                                                \
    .inputs = (const ef__input[])                                                                  \
    {                                                                                              \
        __VA_ARGS__, EF__INPUT_END                                                                 \
    }
/* The inputs of an operation, and its request struct. */
#define REQUEST(type, ...) INPUTS(__VA_ARGS__), .size = sizeof(type)
#define ANSWER(schema) .answer = (schema)
/* Objects by their shape: an array, one object, or a member of an object. */
#define ARRAY(schema, name) .answer = (schema), .shape = &ef__shape_##name
#define ONE(schema, name) .answer = (schema), .shape = &ef__shape_##name, .member = ""
#define MEMBER(schema, key, name) .answer = (schema), .shape = &ef__shape_##name, .member = (key)

#define GET "GET"
#define POST "POST"
#define READS(tenancy) EF__SCOPE_READ, EF__TENANCY_##tenancy, 0
#define READS_BODY(tenancy) EF__SCOPE_READ, EF__TENANCY_##tenancy, EF__ROUTE_BODY
#define OPERATES(tenancy) EF__SCOPE_OPERATE, EF__TENANCY_##tenancy, EF__ROUTE_BODY
#define ADMINISTERS EF__SCOPE_ADMIN, EF__TENANCY_UNBOUND
