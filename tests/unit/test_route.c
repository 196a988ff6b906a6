/*
 * test_route.c - each route declares what a token of one tenant gets of it.
 */
#include "../../src/server/route.h"

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

TEST_MAIN(TEST_CASE(every_route_declares_its_tenancy),
          TEST_CASE(a_route_that_declares_no_tenancy_is_refused_and_named))
