/*
 * everfold.h - the public API: all headers except the optional ones (sqlite.h, client.h).
 */
#pragma once

#include <everfold/clock.h>
#include <everfold/engine.h>
#include <everfold/event.h>
#include <everfold/fold.h>
#include <everfold/generation.h>
#include <everfold/journal.h>
#include <everfold/log.h>
#include <everfold/names.h>
#include <everfold/outbox.h>
#include <everfold/projection.h>
#include <everfold/publisher.h>
#include <everfold/replay.h>
#include <everfold/run.h>
#include <everfold/shadow.h>
#include <everfold/status.h>
#include <everfold/store.h>
#include <everfold/str.h>
#include <everfold/supervisor.h>
#include <everfold/trial.h>
#include <everfold/version.h>
#include <everfold/view.h>
#include <everfold/worker.h>
