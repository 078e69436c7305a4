#include "paceline/app/launch/run/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "paceline/app/launch/ending/ending.h"

namespace paceline::launch {
namespace {

using Records = std::vector<RankRecord>;

bool is_missing(const RankRecord& record) {
  return !record.joined && !record.ended() && !record.late;
}

bool has_started(const RankRecord& record) {
  return record.pid != 0;
}

std::string what_may_be_wrong(const RankRecord& record) {
  if (!has_started(record))
    return record.host.empty() ? "no process yet"
                               : "no process yet: the way to that host (ssh) has not answered";
  return "started, but did not call paceline::init() so far: still loading, stuck, or a wrapper "
         "(env -i, sudo) emptied its environment";
}

double in_seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// Members that are missing in the same way on the same host.
struct Group {
  std::string host, why;
  bool serves = false;
  std::vector<int> numbers = {};
  int pid = 0;  // of the only one
};

std::string text_of(const Group& group) {
  const std::string pid =
      group.numbers.size() == 1 && group.pid != 0 ? fmt::format("pid {}, ", group.pid) : "";
  return fmt::format("{} ({}host {}): {}",
                     name_ranks(group.numbers, group.serves ? "server" : "rank"), pid, group.host,
                     group.why);
}

std::string who_is_missing(const Records& records, const std::string& own_host) {
  std::vector<Group> groups;
  for (int rank = 0; rank < static_cast<int>(records.size()); ++rank) {
    const RankRecord& record = records[static_cast<std::size_t>(rank)];
    if (!is_missing(record)) continue;
    const Group wanted{.host = record.host.empty() ? own_host : record.host,
                       .why = what_may_be_wrong(record),
                       .serves = record.server.has_value()};
    auto group = std::ranges::find_if(groups, [&](const Group& one) {
      return one.host == wanted.host && one.why == wanted.why && one.serves == wanted.serves;
    });
    if (group == groups.end()) group = groups.insert(group, wanted);
    group->numbers.push_back(record.server.value_or(rank));
    group->pid = record.pid;
  }
  std::string text;
  for (const Group& group : groups) text += (text.empty() ? "" : "; ") + text_of(group);
  return text;
}

std::string who_has_joined(const Records& records) {
  std::vector<int> ranks;
  for (int rank = 0; rank < static_cast<int>(records.size()); ++rank) {
    const RankRecord& record = records[static_cast<std::size_t>(rank)];
    if (record.joined && !record.server) ranks.push_back(rank);
  }
  if (ranks.empty()) return "nobody has joined";
  return fmt::format("{} {} joined", name_ranks(ranks), ranks.size() == 1 ? "has" : "have");
}

bool is_awaited(const RankRecord& record) {
  return record.joined && !record.ended() && !record.server;
}

bool is_awaited_server(const RankRecord& record) {
  return record.server && record.joined && !record.ended();
}

bool has_ended(const RankRecord& record) {
  return record.joined && record.ended() && !record.server;
}

struct EndWait {
  bool for_servers = false;
  Finishing::Moment since;
};

// Ranks are waited for since the first one of them has ended, servers since the last one.
std::optional<EndWait> wait_of(const Records& records) {
  std::optional<Finishing::Moment> first, last;
  for (const RankRecord& record : records) {
    if (!has_ended(record)) continue;
    first = std::min(first.value_or(record.stamp), record.stamp);
    last = std::max(last.value_or(record.stamp), record.stamp);
  }
  if (!first) return std::nullopt;
  if (std::ranges::any_of(records, is_awaited)) return EndWait{.since = *first};
  const bool some_rank_runs = std::ranges::any_of(
      records, [](const RankRecord& one) { return !one.server && !one.ended(); });
  if (some_rank_runs || std::ranges::none_of(records, is_awaited_server)) return std::nullopt;
  return EndWait{.for_servers = true, .since = *last};
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

std::optional<Starting::Moment> Starting::waits_since(const Records& records) const {
  if (std::ranges::none_of(records, is_missing)) return std::nullopt;
  const bool all_started = std::ranges::all_of(
      records, [](const RankRecord& one) { return one.ended() || has_started(one) || one.late; });
  if (!all_started) return begun_;  // the launcher itself waits
  return first_joined_;
}

std::optional<std::string> Starting::line(const Records& records, Moment now) {
  const auto since = waits_since(records);
  if (!since || now < *since + options_.stall * (1 << told_)) return std::nullopt;
  while (now >= *since + options_.stall * (1 << told_)) ++told_;
  return fmt::format(
      "paceline: the start waits for {:.3g} s: {}; missing: {}; the run fails after "
      "{:.4g} s (--start-timeout)\n",
      in_seconds(now - *since), who_has_joined(records), who_is_missing(records, options_.host),
      in_seconds(options_.limit));
}

std::optional<int> Starting::overdue(const Records& records, Moment now) const {
  const auto since = waits_since(records);
  if (!since || now < *since + options_.limit) return std::nullopt;
  return static_cast<int>(std::ranges::find_if(records, is_missing) - records.begin());
}

std::string Starting::too_late(int rank, const Records& records) const {
  return fmt::format("did not join within {:.4g} s (--start-timeout): {}",
                     in_seconds(options_.limit),
                     what_may_be_wrong(records.at(static_cast<std::size_t>(rank))));
}

Deadline Starting::next_timer(const Records& records) const {
  const auto since = waits_since(records);
  if (!since) return Deadline::never();
  return Deadline::at(*since + options_.stall * (1 << told_))
      .sooner(Deadline::at(*since + options_.limit));
}

Finishing::Moment Finishing::next_line(bool for_servers, Moment since) const {
  return since + options_.stall * (1 << (for_servers ? told_of_servers_ : told_));
}

std::optional<std::string> Finishing::line(const Records& records, Moment now) {
  const auto wait = wait_of(records);
  if (!wait || now < next_line(wait->for_servers, wait->since)) return std::nullopt;
  while (now >= next_line(wait->for_servers, wait->since))
    ++(wait->for_servers ? told_of_servers_ : told_);
  std::string text = fmt::format("paceline: the end waits for {:.3g} s: {}",
                                 in_seconds(now - wait->since), who_has_ended(records));
  for (int rank = 0; rank < static_cast<int>(records.size()); ++rank) {
    const RankRecord& record = records[static_cast<std::size_t>(rank)];
    if (!(wait->for_servers ? is_awaited_server(record) : is_awaited(record))) continue;
    text += fmt::format("; {} {} (pid {}, host {}) {}", record.server ? "server" : "rank",
                        record.server.value_or(rank), record.pid,
                        record.host.empty() ? options_.host : record.host,
                        how_it_runs_on(record, options_));
  }
  return text + "\n";
}

Deadline Finishing::next_timer(const Records& records) const {
  const auto wait = wait_of(records);
  return wait ? Deadline::at(next_line(wait->for_servers, wait->since)) : Deadline::never();
}

bool is_stopped_process(int pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("State:")) return line.find_first_of("Tt", 6) == 7;
  return false;
}

}  // namespace paceline::launch
