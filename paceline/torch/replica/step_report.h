// The report on a step of a DataParallel (parallel/data_parallel.h).
#pragma once

#include <cstdint>
#include <map>

namespace paceline {

namespace replica {

// The exchanges of a synchrony (docs/strategies/).
struct ExchangeReport {
  std::int64_t exchanges = 0;  // so far
  double bytes = 0;            // that this rank brought to them; weights and flags do not count
  int period = 0;              // steps from one exchange to the next, at present
  double distance = 0;         // how far apart the replicas were at the last one, as its page tells
};

// The parameters of sharded replicas in a step, on this rank (docs/guide/sharding.md).
struct ShardReport {
  int gathers = 0;            // of units
  double gathered_bytes = 0;  // of these units, with padding
  double whole_memory = 0;    // the most bytes in which whole units lay at once
  double piece_memory = 0;    // bytes of this rank's pieces of parameters, where they lie apart
};

// Parameters on servers (docs/server/), by the first part of them. An update is the push of a step.
struct ServerReport {
  std::int64_t version = 0;  // steps of the servers by which the parameters here were made
  std::int64_t used = 0;     // updates of this rank in them, so far
  std::int64_t dropped = 0;  // updates of this rank that came too late for their step, so far
  // The numbers of updates of each staleness; their sum is `used`. An update is as stale as the
  // servers made versions after the one on which its gradient was computed.
  std::map<std::int64_t, std::int64_t> staleness = {};
};

}  // namespace replica

// The figures of the last step on this rank.
struct StepReport {
  int buckets = 0;               // all_reduces of this step
  int launched_in_backward = 0;  // of these, started while backward still ran
  int gradients = 0;             // that backward made here
  // Made before the first all_reduce started; less than `gradients`: they overlapped.
  int gradients_at_first_launch = 0;
  int copied = 0;           // gradients that were not computed right into their message's memory
  int late = 0;             // gradients that came after one that stands later in the buckets
  int used = 0;             // parameters that some rank of weight > 0 used
  int shadows = 0;          // ranks of weight 0
  double total_weight = 0;  // of all ranks; of this one where ranks do not wait for each other
  std::int64_t step = 0;    // 1 for the first
  int plans = 0;            // how often the schedule was planned until then
  int looks = 0;  // how often a compression with a menu has looked at gradients until then
  // Bytes of the gradients that were compressed, without tensors that travel whole beside them, and
  // of what this rank brought to exchanges for them.
  double coded_bytes = 0, wire_bytes = 0;
  // A gradient of some rank overflowed where it was compressed or computed in fp16, or was not
  // finite (DataParallelOptions::non_finite): the step was left out.
  bool overflowed = false;
  std::int64_t skipped = 0;  // steps that were left out for that so far, with this one
  // The most bytes of messages in which whole gradients lay at once.
  double gradient_memory = 0;
  double waited_seconds = 0;     // that this rank waited for gradients, since the step before
  double under_way_seconds = 0;  // in which gradients were under way
  replica::ExchangeReport exchange = {};
  replica::ShardReport sharded = {};
  replica::ServerReport servers = {};
};

}  // namespace paceline
