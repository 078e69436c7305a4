#include "paceline/app/launch/ending/root_cause.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>

#include "paceline/app/launch/process/signals.h"

namespace paceline::launch {
namespace {

template <typename Condition>
std::optional<int> earliest(const std::vector<RankRecord>& records, const Condition& holds) {
  std::optional<int> first;
  for (int rank = 0; rank < static_cast<int>(records.size()); ++rank) {
    const auto at = [&](int r) { return records[static_cast<std::size_t>(r)].stamp; };
    if (holds(rank) && (!first || at(rank) < at(*first))) first = rank;
  }
  return first;
}

// Whether `rank` named another rank that counts as the reason of its failure, e.g. a lost peer.
template <typename Condition>
bool blames(int rank, const std::vector<RankRecord>& records, const Condition& counts) {
  const auto& report = records[static_cast<std::size_t>(rank)].report;
  return report && std::ranges::any_of(report->ranks, [&](int other) {
           return other != rank && other >= 0 && other < static_cast<int>(records.size()) &&
                  counts(records[static_cast<std::size_t>(other)]);
         });
}

}  // namespace

std::optional<int> find_root_cause(const std::vector<RankRecord>& records) {
  const auto has_failed = [&](int rank) {
    return records[static_cast<std::size_t>(rank)].failed();
  };
  const auto is_primary = [&](int rank) {
    return has_failed(rank) &&
           !blames(rank, records, [](const RankRecord& other) { return other.failed(); });
  };
  const auto primary = earliest(records, is_primary);
  return primary ? primary : earliest(records, has_failed);
}

std::string desertion(int rank, const std::vector<RankRecord>& records) {
  const RankRecord& record = records[static_cast<std::size_t>(rank)];
  if (record.wait_status != 0 || record.stopped || record.left || record.borne) return {};
  const bool all_joined =
      std::ranges::all_of(records, [](const RankRecord& one) { return one.joined || one.late; });
  for (int other = 0; other < static_cast<int>(records.size()); ++other) {
    const RankRecord& one = records[static_cast<std::size_t>(other)];
    if (other == rank || !one.joined || one.server) continue;  // servers end when all have left
    if (!all_joined && !record.joined)
      return "without having joined the run, while others waited for it: it did not call "
             "paceline::init(), or a wrapper (env -i, sudo) emptied its environment";
    if (!all_joined) return "before all ranks had joined, while others waited for it";
    const bool lost_it = one.failed() && one.report && one.report->fault == Fault::peer_lost &&
                         std::ranges::count(one.report->ranks, rank) > 0;
    if (lost_it) return "without ending its Job (by exit or _exit), while others waited for it";
  }
  return {};
}

bool awaits_root_cause(const std::vector<RankRecord>& records) {
  const auto root = find_root_cause(records);
  return root && blames(*root, records, [](const RankRecord& other) { return !other.ended(); });
}

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string how_it_ended(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return fmt::format("ended with code {}", WEXITSTATUS(wait_status));
  const int number = WTERMSIG(wait_status);
  return fmt::format("was killed by signal {} ({})", number, signal_name(number));
}

}  // namespace paceline::launch
