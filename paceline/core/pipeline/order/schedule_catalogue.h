// The catalogue of pipeline schedules, which `--pipeline` and PipelineOptions::schedule name: each
// makes an order, and knows in closed form what the order takes (docs/pipelines/).
//
// CMake lists orders/*.cpp and generates built_in_schedules(); file <name>.cpp defines
// `Schedule <name>()` in namespace paceline::pipeline::catalogue. Nothing registers itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/pipeline/order/order.h"
#include "paceline/core/settings/named_choice.h"

namespace paceline::pipeline {

// Seconds of one micro-batch: of a stage, or of all chunks of a rank.
struct StageSeconds {
  double forward = 0;
  double backward = 0;  // of the input's gradient
  double weight = 0;    // of the weights' gradient, which a backward that is not split does too
  double sum() const { return forward + backward + weight; }
};

// The version of the weights with which a schedule without a flush computes
// (versions/stage_versions.h).
enum class VersionSync : std::uint8_t {
  stash,            // each stage's newest one when the forward begins
  vertical,         // on all stages the newest one that all have made when it enters the first
  double_buffered,  // for a whole batch the one before the newest
};

struct Schedule {
  std::string_view name;
  std::string_view summary;  // one line
  std::string_view reference;
  std::vector<Setting> settings = {};
  bool splits_backward = false;
  // Null: the pipeline is empty after each batch, so one version of the weights is enough.
  // Otherwise the micro-batches of an order go on over the batches without a flush.
  VersionSync (*versions)(const Settings&) = nullptr;

  int (*chunks)(const Settings&) = nullptr;  // stages of each rank; null: one
  // Why the schedule has no order of this shape, and the remedy; null: it always has one.
  std::optional<std::string> (*refuses)(int ranks, int micro_batches) = nullptr;
  Order (*make)(int ranks, int micro_batches, const Settings&) = nullptr;

  // Closed forms, for ranks that take equal times and messages that take none: seconds of the whole
  // order (`seconds`: of all chunks of a rank), and the peak of live activations on a rank, in
  // activations of one stage. A test holds them against the simulator.
  double (*makespan)(int ranks, int micro_batches, const StageSeconds& seconds,
                     const Settings&) = nullptr;
  int (*live)(int rank, int ranks, int micro_batches, const Settings&) = nullptr;

  bool is_synchronous() const { return versions == nullptr; }
  int chunks_of(const Settings& given) const { return chunks == nullptr ? 1 : chunks(given); }
};

std::vector<Schedule> built_in_schedules();  // sorted by the names of their files

// The built-in schedules, the simplest first and those without a flush last.
std::span<const Schedule> schedules();

using ScheduleChoice = NamedChoice<Schedule>;
// Parses "NAME" or "NAME:SETTING=VALUE". A failure (misuse) says what is wrong and lists the valid
// names.
Result<ScheduleChoice> parse_schedule(std::string_view text);

// The order of a schedule without a flush goes over `batches` batches, whose micro-batches are
// counted on. A failure (misuse) says what the schedule refuses, with both sides and the remedy.
Result<Order> make_order(const ScheduleChoice& choice, int ranks, int micro_batches,
                         int batches = 1);

}  // namespace paceline::pipeline
