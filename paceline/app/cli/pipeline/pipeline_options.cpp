#include "paceline/app/cli/pipeline/pipeline_options.h"

#include <fmt/format.h>

#include <cmath>

#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/core/base/check.h"
#include "paceline/core/base/number.h"

namespace paceline::cli {
namespace {

constexpr int kMostMicroBatches = 100'000;
constexpr double kMillisecond = 1e-3;
constexpr double kMostForwards = 2e6;  // they take a GB

pipeline::StageSeconds parse_stage(std::string_view option, const std::string& text) {
  std::vector<double> milliseconds;
  for (const std::string& part : split(text, ':')) {
    const auto value = number_in<double>(part);
    const bool is_good = value && std::isfinite(*value) && *value >= 0;
    milliseconds.push_back(is_good ? *value : -1);
  }
  const auto at = [&](std::size_t i) { return milliseconds[i] * kMillisecond; };
  const bool is_good = milliseconds.size() == 3 && at(0) > 0 && at(1) > 0 && at(2) >= 0;
  PACELINE_CHECK(is_good,
                 "{}: \"{}\" is not FORWARD:BACKWARD:WEIGHT in milliseconds; write it as 10:10:10 "
                 "(the last one may be 0)",
                 option, text);
  return {at(0), at(1), at(2)};
}

}  // namespace

void add_pipeline_options(CLI::App& app, PipelineOptions& given) {
  const auto add = adder(app);
  add("--schedule", given.schedule, "NAME",
      "sequential, gpipe, 1f1b, interleaved:chunks=V, zero_bubble, pipedream, pipedream_2bw "
      "(1f1b)");
  add("--micro-batches", given.micro_batches, "N", "micro-batches of a batch (8)");
  add("--batches", given.batches, "N",
      "batches that follow each other without a flush, for pipedream and pipedream_2bw (1)");
  add("--durations", given.durations, "F:B:W",
      "milliseconds of a rank's forward, backward and weight gradient for a micro-batch; one for "
      "each rank: F:B:W,F:B:W,... (10:10:10)");
  add("--message", given.message, "SIZE", "bytes of a micro-batch at each cut (256KiB)");
}

std::vector<pipeline::StageSeconds> parse_durations(std::string_view option,
                                                    const std::string& text) {
  std::vector<pipeline::StageSeconds> durations;
  for (const std::string& part : parse_list(option, text))
    durations.push_back(parse_stage(option, part));
  return durations;
}

pipeline::PipelineCosts PipelineCase::costs() const {
  pipeline::PipelineCosts costs = pipeline::equal_costs(order, durations.front());
  const double chunks = order.placement().chunks();
  for (std::size_t stage = 0; stage < costs.stages.size() && !is_equal(); ++stage) {
    const auto& rank = durations[stage % durations.size()];
    costs.stages[stage] = {rank.forward / chunks, rank.backward / chunks, rank.weight / chunks};
  }
  costs.cut_bytes.assign(static_cast<std::size_t>(order.stages - 1), message_bytes);
  return costs;
}

PipelineCase checked_case(const PipelineOptions& given, int ranks) {
  PipelineCase one{.choice = pipeline::parse_schedule(given.schedule).value(), .ranks = ranks};
  one.micro_batches = parse_count("--micro-batches", given.micro_batches, 1, kMostMicroBatches);
  if (!given.batches.empty())
    one.batches = parse_count("--batches", given.batches, 1, kMostMicroBatches / one.micro_batches);
  const int chunks = one.choice.entry.chunks_of(one.choice.settings);
  const double forwards = 1.0 * ranks * chunks * one.micro_batches * one.batches;
  PACELINE_CHECK(forwards <= kMostForwards,
                 "{} ranks with {} stages each and {} micro-batches are {:.0f} forwards, more than "
                 "{:.0f}: give fewer",
                 ranks, chunks, one.micro_batches * one.batches, forwards, kMostForwards);
  one.order = pipeline::make_order(one.choice, ranks, one.micro_batches, one.batches).value();
  one.durations = parse_durations("--durations", given.durations);
  one.message_bytes = static_cast<double>(parse_size("--message", given.message));
  const auto times = one.durations.size();
  PACELINE_CHECK(
      times == 1 || times == static_cast<std::size_t>(ranks),
      "--durations: there are times for {} ranks, and there are {} ranks; give F:B:W once "
      "for all ranks, or once for each",
      times, ranks);
  return one;
}

}  // namespace paceline::cli
