#include "paceline/app/launch/ending/restarts.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::launch {
namespace {

constexpr std::chrono::seconds kLongestPause{60};
constexpr int kMisuse = 2, kRefused = 4;

// Another start would end in the same way.
bool is_hopeless(const Outcome& outcome, const std::vector<RankRecord>& records) {
  const bool did_not_start =
      outcome.root && !records.at(static_cast<std::size_t>(*outcome.root)).not_started.empty();
  return did_not_start || outcome.exit_code == kMisuse || outcome.exit_code == kRefused;
}

bool all_ranks_ended_well(const Outcome& outcome, const std::vector<RankRecord>& records) {
  return outcome.root && records.at(static_cast<std::size_t>(*outcome.root)).overstayed();
}

std::chrono::seconds pause_after(int failures_in_a_row) {
  constexpr int kDoublings = 6;  // 64 s are more than the longest pause
  return std::min(kLongestPause,
                  std::chrono::seconds(1 << std::min(failures_in_a_row - 1, kDoublings)));
}

}  // namespace

void Restarts::on_saved(std::uint64_t step) {
  // A program that comes to the same end each time may save the same step each time.
  if (newest_ && step <= *newest_) return;
  newest_ = step;
  in_a_row_ = 0;
}

std::optional<Clock::duration> Restarts::after(const Outcome& outcome,
                                               const std::vector<RankRecord>& records) {
  told_.clear();
  if (outcome.kind != Outcome::Kind::failed || most_ == 0) return std::nullopt;
  if (is_hopeless(outcome, records)) {
    told_ = "no restart: another start would end in the same way";
    return std::nullopt;
  }
  if (all_ranks_ended_well(outcome, records)) {
    told_ = "no restart: all ranks had ended well";
    return std::nullopt;
  }
  ++in_a_row_;
  const std::string newest = newest_ ? fmt::format("the newest checkpoint is of step {}", *newest_)
                                     : std::string("no checkpoint was saved");
  const std::string count =
      fmt::format("{} failure{} without a new checkpoint", in_a_row_, in_a_row_ == 1 ? "" : "s");
  if (in_a_row_ > most_) {
    told_ = fmt::format("no restart after {} (--max-restarts {}); {}", count, most_, newest);
    return std::nullopt;
  }
  const auto pause = pause_after(in_a_row_);
  ++generation_;
  told_ = fmt::format("restart in {} s as generation {}; {}; {} of at most {}", pause.count(),
                      generation_, newest, count, most_);
  return pause;
}

}  // namespace paceline::launch
