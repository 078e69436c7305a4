// Turns: one forward, one backward, without end. After a warm-up of forwards a rank computes the
// next forward and then the oldest backward. An order of this kind need not know how many
// micro-batches will come: 1f1b drains it after each batch, pipedream goes on.
// Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training, SOSP 2019 (1F1B,
// and 1F1B-RR where a stage has replicas).
#pragma once

#include <vector>

#include "paceline/core/pipeline/order/order.h"

namespace paceline::pipeline {

// The turns of one rank. Its own micro-batches are `replica`, `replica` + `replicas`, and so on.
struct Turns {
  int stage = 0;
  int warm_up = 0;  // forwards before the first backward, less the one of its turn
  int replica = 0, replicas = 1;

  int micro_batch(int own) const { return replica + own * replicas; }
  // Turn `own`: the forward of its own micro-batch `own` and, once `own` has reached the warm-up,
  // the backward of the one that is `warm_up` turns older.
  std::vector<Operation> turn(int own) const;
  // The backwards that are left after `owns` turns.
  std::vector<Operation> drain(int owns) const;
  // How many of micro-batches 0 .. micro_batches - 1 are its own.
  int owns_of(int micro_batches) const;
  // The whole list of this rank if `micro_batches` come in all: its turns, then the backwards that
  // are left.
  std::vector<Operation> until(int micro_batches) const;
};

// The limit of micro-batches that each rank of a stage may have in flight, that is forwarded and
// not yet back, for each stage: ceil(sum of R_q over q >= s / R_s). Without replicas this is S - s.
std::vector<int> in_flight_limits(const std::vector<int>& replicas);

// The turns of rank `rank` of a placement with one chunk; its warm-up is its limit less one.
Turns turns_of(const Placement& placement, int rank);

// The order in which every rank takes its turns until `micro_batches` have come, and then computes
// the backwards that are left.
Order order_of_turns(const std::vector<int>& replicas, int micro_batches);
Order order_of_turns(int ranks, int micro_batches);  // with one rank for each stage

}  // namespace paceline::pipeline
