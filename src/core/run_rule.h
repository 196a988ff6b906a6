/*
 * run_rule.h - the transitions between the states of a run (drawn in <everfold/run.h>).
 */
#pragma once

#include <everfold/run.h>

/* May a run in state `from` be stored with state `to`? running to running is progress. */
bool ef__run_may_move(ef_run_state from, ef_run_state to);

/* Queued or running: it excludes other runs of its scope. */
bool ef__run_is_open(ef_run_state state);
