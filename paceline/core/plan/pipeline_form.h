// Closed forms of pipeline schedules: the time of a step, the activations that are alive, and the
// versions of the weights that are kept, for p stages and m micro-batches.
//
//   form                   step, equal stages, no transfers           alive on stage s
//   sequential             m p (F + B)                                1
//   gpipe                  (m + p - 1) (F + B)                        m
//   1f1b                   (m + p - 1) (F + B)                        min(p - s, m)
//   interleaved:chunks=V   (m + (p - 1) / V) (F + B)                  min(2 (p-s-1) + (V-1) p + 1,
//                                                                     V m) / V; m if m is p
//   zero_bubble            m (F + B) + (p - 1) (F + B/2)              min(p, m)
//                          - (min(p, m) - 1) min(F, B/2)
//   pipedream              F + B for each mini-batch, once full       p - s
//   pipedream_2bw          m (F + B), once full                       p - s
//
// Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream, SOSP 2019, its 2BW, ICML 2021,
// and Megatron-LM, SC 2021 (interleaved); Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "paceline/core/base/result.h"

namespace paceline::plan {

enum class PipelineKind : std::uint8_t {
  sequential,
  gpipe,
  one_f_one_b,
  interleaved,
  zero_bubble,
  pipedream,
  pipedream_2bw,
};

struct PipelineForm {
  PipelineKind kind = PipelineKind::one_f_one_b;
  int chunks = 1;            // of each rank, under `interleaved`
  bool is_vertical = false;  // pipedream:sync=vertical

  // "1f1b", "interleaved:chunks=2". A failure (misuse) lists the names, or the valid values.
  static Result<PipelineForm> parse(std::string_view text);
  std::string text() const;
  // All of a step's gradients are in the weights before the next step begins.
  bool is_synchronous() const {
    return kind != PipelineKind::pipedream && kind != PipelineKind::pipedream_2bw;
  }
  bool operator==(const PipelineForm&) const = default;
};

// That of a pipeline of this form which recomputes activations. Backwards of `zero_bubble` make the
// weights' gradients too then, as those of 1f1b do.
PipelineForm recomputing(PipelineForm form);

// The seconds that a stage spends on a micro-batch.
struct StageTimes {
  double forward = 0, backward = 0;
  double transfer = 0;  // to the next stage; the gradient that comes back takes as long
  int replicas = 1;     // micro-batches go to them in turn
  double seconds() const { return forward + backward; }
};

// The mini-batches that may be in flight on a replica of a stage: the replicas of this stage and
// of those after it, over those of this one, rounded up.
int in_flight(std::span<const int> replicas, int stage);

// Micro-batches whose activations are alive on a stage at once, at most. Under `interleaved` a
// chunk of a micro-batch counts as the V-th part. Under asynchronous forms it is in_flight().
// REQUIRES: a stage of the pipeline; m >= 1, divisible by the stages under `interleaved`.
double live_activations(const PipelineForm& form, std::span<const int> replicas, int stage,
                        int micro_batches);

// The versions of its weights that a stage keeps, the newest among them.
int weight_versions(const PipelineForm& form, std::span<const int> replicas, int stage);

// The seconds between two micro-batches of a pipeline that runs 1F1B without a flush: the slowest
// stage or transfer, or the slowest cycle among neighbours, since a stage that has as many
// micro-batches in flight as it may waits for the transfers there and back.
double steady_seconds(std::span<const StageTimes> stages);

// The seconds of a step of m micro-batches, when an asynchronous pipeline is full; plans simulate
// the others (pipeline_draft.h), unless there are too many operations. It is exact for
// sequential and gpipe, and for equal stages without transfers; else an estimate that takes the
// slowest stage for all where the form needs equal stages. Transfers of `interleaved` and
// `zero_bubble` count where the pipeline fills and drains. B/2 is the weights' gradient.
double step_seconds(const PipelineForm& form, std::span<const StageTimes> stages,
                    int micro_batches);

// The micro-batches in whose time a stage of a synchronous form idles: p - 1, under `interleaved`
// (p - 1) / V. A zero_bubble idles less, and sequential placement has no such number.
double idle_micro_batches(const PipelineForm& form, int stages);

}  // namespace paceline::plan
