// The door of pipeline: a model cut into stages that lie on different ranks, and the order in which
// these work.
//
// An Order (order/order.h) is a pure value: for each rank a list of forwards, backwards and weight
// gradients. A schedule (orders/ has a file for each, schedule_catalogue.h lists them) makes one
// and knows its time and memory in closed form; turns.h is the rule that goes on without end.
// check_order.h proves that an order can run and counts its live activations, simulate_order.h runs
// it in virtual time. A schedule without a flush keeps versions of the weights: stage_versions.h
// says which one an operation uses, and which ones a rank must keep. A runner (run/runner.h)
// carries a rank's list out over a Communicator, by what rank_progress.h, a pure value, says comes
// next; transfer.h has the messages, runner.h the spans. Start reading at order/order.h. Nothing
// here depends on torch.
#pragma once

#include "paceline/core/pipeline/check/check_order.h"
#include "paceline/core/pipeline/check/simulate_order.h"
#include "paceline/core/pipeline/order/order.h"
#include "paceline/core/pipeline/order/schedule_catalogue.h"
#include "paceline/core/pipeline/order/turns.h"
#include "paceline/core/pipeline/run/runner.h"
#include "paceline/core/pipeline/run/transfer.h"
#include "paceline/core/pipeline/versions/stage_versions.h"
