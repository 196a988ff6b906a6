/*
 * test_route.c - each route declares what a token of one tenant gets of it, and the inputs of each
 * operation fit its pattern and its request struct.
 */
#include "../../src/server/request.h"

#include "test.h"

TEST(every_route_declares_its_tenancy)
{
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_OK, ef__routes_check(NULL, &err), &err);
}

TEST(a_route_that_declares_no_tenancy_is_refused_and_named)
{
    const ef__operation operation = {
        .method = "GET", .pattern = "/v1/new", .scope = EF__SCOPE_READ};
    const ef__http_route silent[] = {{.operation = &operation}, {0}};
    const ef__http_route *const tables[] = {silent, NULL};
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_MISUSE, ef__routes_check(tables, &err), &err);
    CHECK(strstr(err.text, "GET /v1/new") != NULL);
}

static size_t count_names(const char *pattern)
{
    size_t count = 0;

    for (const char *at = strchr(pattern, '{'); at; at = strchr(at + 1, '{'))
        count++;
    return count;
}

static void check_inputs(const ef__operation *operation)
{
    size_t names = 0;

    for (const ef__input *in = operation->inputs; in && in->name; in++) {
        names += in->place == EF__INPUT_PATH;
        CHECK(in->size == 0 || operation->size == 0 || in->offset + in->size <= operation->size);
        CHECK(in->kind != EF__INPUT_INT || in->min < in->max);
        CHECK(in->place != EF__INPUT_MEMBER || (operation->flags & EF__ROUTE_BODY));
    }
    if (operation->size > 0 && names > 0)
        CHECK_INT((int64_t)count_names(operation->pattern), (int64_t)names);
}

TEST(inputs_of_every_operation_fit_its_pattern_and_request_struct)
{
    for (size_t t = 0; ef__route_tables[t]; t++)
        for (const ef__http_route *route = ef__route_tables[t]; route->operation; route++) {
            CHECK((route->run != NULL) != (route->serve != NULL));
            CHECK(!route->serve || route->operation->size > 0);
            check_inputs(route->operation);
        }
}

TEST_MAIN(TEST_CASE(every_route_declares_its_tenancy),
          TEST_CASE(inputs_of_every_operation_fit_its_pattern_and_request_struct),
          TEST_CASE(a_route_that_declares_no_tenancy_is_refused_and_named))
