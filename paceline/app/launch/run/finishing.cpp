#include "paceline/app/launch/run/finishing.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "paceline/app/launch/ending/ending.h"

namespace paceline::launch {
namespace {

using Records = std::vector<RankRecord>;

bool is_awaited(const RankRecord& record) {
  return record.joined && !record.ended() && !record.server;
}

bool has_ended(const RankRecord& record) {
  return record.joined && record.ended() && !record.server;
}

// When the first one ended.
std::optional<Finishing::Moment> waits_since(const Records& records) {
  if (std::ranges::none_of(records, is_awaited)) return std::nullopt;
  std::optional<Finishing::Moment> first;
  for (const RankRecord& record : records)
    if (has_ended(record)) first = std::min(first.value_or(record.stamp), record.stamp);
  return first;
}

std::string who_has_ended(const Records& records) {
  std::vector<int> ranks;
  for (int rank = 0; rank < static_cast<int>(records.size()); ++rank)
    if (has_ended(records[static_cast<std::size_t>(rank)])) ranks.push_back(rank);
  return fmt::format("{} {} ended", name_ranks(ranks), ranks.size() == 1 ? "has" : "have");
}

std::string how_it_runs_on(const RankRecord& record, const Finishing::Options& options) {
  if (record.host.empty() && options.is_stopped(record.pid))
    return fmt::format("is stopped (kill -CONT {} lets it go on)", record.pid);
  return record.left ? "has left the job, and its process runs on" : "runs on";
}

}  // namespace

std::optional<std::string> Finishing::line(const Records& records, Moment now) {
  const auto since = waits_since(records);
  if (!since || now < *since + options_.stall * (1 << told_)) return std::nullopt;
  while (now >= *since + options_.stall * (1 << told_)) ++told_;
  std::string text =
      fmt::format("paceline: the end waits for {:.3g} s: {}",
                  std::chrono::duration<double>(now - *since).count(), who_has_ended(records));
  for (int rank = 0; rank < static_cast<int>(records.size()); ++rank) {
    const RankRecord& record = records[static_cast<std::size_t>(rank)];
    if (!is_awaited(record)) continue;
    text += fmt::format("; rank {} (pid {}, host {}) {}", rank, record.pid,
                        record.host.empty() ? options_.host : record.host,
                        how_it_runs_on(record, options_));
  }
  return text + "\n";
}

Deadline Finishing::next_timer(const Records& records) const {
  const auto since = waits_since(records);
  return since ? Deadline::at(*since + options_.stall * (1 << told_)) : Deadline::never();
}

bool is_stopped_process(int pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("State:")) return line.find_first_of("Tt", 6) == 7;
  return false;
}

}  // namespace paceline::launch
