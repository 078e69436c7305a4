#include "paceline/core/collective/group/stall_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/log.h"

namespace paceline::collective {

void StallWatch::begin(std::uint64_t movement) {
  moved_ = movement;
  looked_at_ = quiet_since_ = Clock::now();
  is_told_ = false;
}

bool StallWatch::is_stalled(std::uint64_t movement, Clock::time_point now) {
  if (is_told_) return false;
  const std::uint64_t before = std::exchange(moved_, movement);
  looked_at_ = now;
  if (moved_ != before) quiet_since_ = now;
  return now >= quiet_since_ + stall_time_;
}

void StallWatch::tell(const std::string& waits) const {
  warn(fmt::format("stall: for {:g} s {}{}", std::chrono::duration<double>(stall_time_).count(),
                   waits, silent_hosts()));
}

void StallWatch::tell(const ActiveOperation& operation, const std::vector<int>& pages) {
  tell(wait_of(operation, pages));
  is_told_ = true;
}

Failure StallWatch::overdue(const ActiveOperation& operation, const std::vector<int>& pages,
                            const std::string& behind) const {
  auto blamed = operation.missing();
  if (blamed.empty() && operation.done()) blamed = pages;
  if (blamed.empty()) blamed = operation.awaited().ranks;
  const std::string remedy = blamed.empty()
                                 ? "look at what the other ranks do"
                                 : fmt::format("look at what {} {}", members_.names(blamed),
                                               blamed.size() == 1 ? "does" : "do");
  return members_.failure(
      Fault::timed_out,
      fmt::format("deadline: {}{}{}; {}. Where ranks are rightly so far apart, let them wait "
                  "longer: paceline run --operation-timeout TIME",
                  wait_of(operation, pages),
                  behind.empty() ? "" : fmt::format(", and {} behind it", behind), silent_hosts(),
                  remedy),
      blamed);
}

// "; the host of ranks 2, 3 has not answered for 0.6 s: look at the network between"; empty where
// hosts answer, so that only their processes are late.
std::string StallWatch::silent_hosts() const {
  std::vector<int> silent;
  std::chrono::milliseconds longest = {};
  for (int rank = 0; rank < members_.size(); ++rank) {
    const transport::Link* const link = members_.link(rank);
    const auto time = link == nullptr ? std::chrono::milliseconds() : link->unanswered();
    if (time < stall_time_ / 2) continue;
    silent.push_back(rank);
    longest = std::max(longest, time);
  }
  if (silent.empty()) return {};
  return fmt::format("; the host of {} has not answered for {:.2g} s: look at the network between",
                     members_.names(silent), std::chrono::duration<double>(longest).count());
}

std::string StallWatch::missing_ranks(const std::vector<int>& missing) const {
  std::string whom = fmt::format("{}, which {} not called it", members_.names_and_device(missing),
                                 missing.size() == 1 ? "has" : "have");
  for (const int rank : missing) {
    const std::string instead = members_.generation().pending_call_of(members_.world_rank(rank));
    if (!instead.empty())
      whom += fmt::format("; {} has called {} instead", members_.name(rank), instead);
  }
  return whom;
}

// "rank 0 waits in all_reduce f32[10] sum (operation 3 of group 'world') for rank 2, which has not
// called it; .."
std::string StallWatch::wait_of(const ActiveOperation& operation,
                                const std::vector<int>& pages) const {
  const auto missing = operation.missing();
  std::string whom;
  if (!missing.empty()) {
    whom = missing_ranks(missing);
  } else if (operation.request().route == Route::engine) {
    whom = "the data, which the library of its engine carries; every rank has called it";
    if (operation.request().late_engine)
      whom +=
          ". If it is the group's first call there, ranks may be unable to come together in it: "
          "--device-transport staged does without";
  } else if (operation.done() && !pages.empty()) {
    whom = fmt::format("the shared memory of {}, which called it", members_.names(pages));
  } else {
    const auto [awaited, to_take] = operation.awaited();
    if (awaited.empty())
      whom = operation.request().staged ? "its device"  // for the rest of the input
                                        : "its own share of the work: is its processor busy?";
    else if (to_take)
      whom = fmt::format("{} to take what was sent to it", members_.names_and_device(awaited));
    else
      whom = fmt::format("data of {}, which {} called it", members_.names_and_device(awaited),
                         awaited.size() == 1 ? "has" : "have");
  }
  return fmt::format("{} waits in {} for {}", members_.name(members_.rank()),
                     operation.description(), whom);
}

}  // namespace paceline::collective
