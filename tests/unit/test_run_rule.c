#include "../../src/core/run_rule.h"

#include "test.h"

/* Row: from; column: to; in the order queued, running, completed, failed, cancelled. */
TEST(a_run_moves_along_its_arrows_and_no_other_way)
{
    static const bool arrows[5][5] = {
        {false, true, false, false, true}, /* queued */
        {false, true, true, true, true},   /* running; to itself is progress */
        {false, false, false, false, false}, {false, false, false, false, false},
        {false, false, false, false, false},
    };

    for (int from = EF_RUN_QUEUED; from <= EF_RUN_CANCELLED; from++) {
        for (int to = EF_RUN_QUEUED; to <= EF_RUN_CANCELLED; to++)
            CHECK_INT(arrows[from][to], ef__run_may_move((ef_run_state)from, (ef_run_state)to));
    }
}

TEST(a_state_that_does_not_exist_goes_nowhere_and_is_never_reached)
{
    for (int s = EF_RUN_QUEUED; s <= EF_RUN_CANCELLED; s++) {
        CHECK(!ef__run_may_move((ef_run_state)s, (ef_run_state)(EF_RUN_CANCELLED + 1)));
        CHECK(!ef__run_may_move((ef_run_state)(EF_RUN_CANCELLED + 1), (ef_run_state)s));
    }
}

TEST(open_runs_are_those_that_can_still_move)
{
    for (int s = EF_RUN_QUEUED; s <= EF_RUN_CANCELLED; s++)
        CHECK_INT(ef__run_may_move((ef_run_state)s, EF_RUN_CANCELLED),
                  ef__run_is_open((ef_run_state)s));
}

TEST_MAIN(TEST_CASE(a_run_moves_along_its_arrows_and_no_other_way),
          TEST_CASE(a_state_that_does_not_exist_goes_nowhere_and_is_never_reached),
          TEST_CASE(open_runs_are_those_that_can_still_move))
