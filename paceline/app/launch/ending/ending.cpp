#include "paceline/app/launch/ending/ending.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <nlohmann/json.hpp>

#include "paceline/app/launch/process/signals.h"

namespace paceline::launch {
namespace {

// The text for a group of ranks; it reads well after "rank 1" and after "ranks 1, 2".
std::string short_how(const RankRecord& record) {
  if (!record.ended()) return "could not be stopped in time";
  if (!record.not_started.empty()) return "could not be started";
  if (!record.lost.empty())
    return record.pid == 0 && record.stopped ? "had not started" : "was lost with its host";
  if (!record.absent.empty()) return "did not join";
  const int status = *record.wait_status;
  const bool saved = status == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM);
  if (record.stopped && saved)
    return fmt::format("ended when asked to (code {})", WEXITSTATUS(status));
  if (record.stopped && WIFSIGNALED(status))
    return fmt::format("had to be stopped ({})", signal_name(WTERMSIG(status)));
  if (record.stopped)
    return fmt::format("had to be stopped (ended with code {})", WEXITSTATUS(status));
  if (WIFSIGNALED(status))
    return fmt::format("died by signal {} ({})", WTERMSIG(status), signal_name(WTERMSIG(status)));
  return fmt::format("ended with code {}", WEXITSTATUS(status));
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// "rank 0 ended with code 1; ranks 2, 3 had to be stopped (SIGTERM)", without rank `root`. Servers
// have groups of their own, and those that ended well are not told: they do so when the ranks
// leave.
std::string what_ranks_did(const std::vector<RankRecord>& records, int root) {
  struct Group {
    std::string text;
    bool serves;
    std::vector<int> numbers = {};
  };
  std::vector<Group> groups;  // in the order of their lowest rank
  for (int rank = 0; rank < static_cast<int>(records.size()); ++rank) {
    if (rank == root) continue;
    const RankRecord& record = records[static_cast<std::size_t>(rank)];
    if (record.server && record.wait_status == 0) continue;
    const Group wanted{short_how(record), record.server.has_value()};
    auto group = std::ranges::find_if(groups, [&](const Group& one) {
      return one.text == wanted.text && one.serves == wanted.serves;
    });
    if (group == groups.end()) group = groups.insert(group, wanted);
    group->numbers.push_back(record.server.value_or(rank));
  }
  std::string result;
  for (const auto& [text, serves, numbers] : groups)
    result += fmt::format("{}{} {}", result.empty() ? "" : "; ",
                          name_ranks(numbers, serves ? "server" : "rank"), text);
  return result;
}

std::string name_of(int rank, const RankRecord& record) {
  return record.server ? fmt::format("server {}", *record.server) : fmt::format("rank {}", rank);
}

// ", after servers 0, 3: nobody has what they had"; of a server that is the last one with a part of
// the tables.
std::string with_whom_it_died(const RankRecord& root, const std::vector<RankRecord>& records) {
  std::vector<int> before;
  const bool just_died = root.server && !root.report && !root.stayed;
  for (const RankRecord& one : records)
    if (one.borne && just_died) before.push_back(*one.server);
  if (before.empty()) return {};
  return fmt::format(", after {}: nobody has the part of the tables that they shared",
                     name_ranks(before, "server"));
}

std::string about_failure(int root, const std::vector<RankRecord>& records, std::string_view host) {
  const RankRecord& record = records.at(static_cast<std::size_t>(root));
  const std::string name = name_of(root, record);
  std::string text = fmt::format("paceline: {} (pid {}, host {}) failed first: it {}{}\n", name,
                                 record.pid, record.host.empty() ? host : record.host,
                                 how_it_ended(record), with_whom_it_died(record, records));
  if (record.report)
    text += fmt::format("paceline: {} told: {}\n", name, first_line(record.report->what));
  if (record.overstayed()) {
    text += "paceline: a server may take longer to end where `paceline run --grace` is longer\n";
  } else if (WIFSIGNALED(*record.wait_status) && WTERMSIG(*record.wait_status) == SIGKILL) {
    text += "paceline: if nobody killed it, the machine ran out of memory: `dmesg` tells\n";
  }
  return text;
}

std::string about_reason(const Outcome& outcome) {
  switch (outcome.kind) {
    case Outcome::Kind::interrupted:
      return fmt::format("the run was stopped by {}", signal_name(outcome.detail));
    case Outcome::Kind::timed_out: return "the run was stopped: --timeout has passed";
    case Outcome::Kind::output_lost:
      return outcome.detail == EPIPE
                 ? std::string("the run was stopped: the reader of its output went away")
                 : fmt::format("the run was stopped: its output cannot be written: {}",
                               ::strerror(outcome.detail));
    case Outcome::Kind::done:
    case Outcome::Kind::failed: break;
  }
  return {};
}

using Json = nlohmann::ordered_json;

std::string_view name_of(Outcome::Kind kind) {
  switch (kind) {
    case Outcome::Kind::done: return "done";
    case Outcome::Kind::failed: return "failed";
    case Outcome::Kind::interrupted: return "interrupted";
    case Outcome::Kind::timed_out: return "timed_out";
    case Outcome::Kind::output_lost: return "output_lost";
  }
  return "";
}

Json process_of(int number, const RankRecord& record, const VerdictFacts& facts) {
  Json process;
  if (record.server) process["server"] = *record.server;
  else process["rank"] = number;
  process["host"] = record.host.empty() ? facts.host : record.host;
  process["pid"] = record.pid;
  process["how"] = how_it_ended(record);
  if (record.ended()) process["exit_code"] = exit_code_of(*record.wait_status);
  if (record.ended() && WIFSIGNALED(*record.wait_status))
    process["signal"] = WTERMSIG(*record.wait_status);
  process["stopped"] = record.stopped;
  if (record.borne) process["borne"] = true;
  if (record.report) process["told"] = record.report->what;
  return process;
}

}  // namespace

std::string how_it_ended(const RankRecord& record) {
  if (!record.not_started.empty())
    return fmt::format("could not be started: {}", record.not_started);
  if (!record.lost.empty()) return fmt::format("was lost: {}", record.lost);
  if (!record.absent.empty()) return record.absent;
  if (record.overstayed())
    return fmt::format("had not ended when all ranks had, and {} be killed",
                       record.ended() ? "had to" : "could not");
  if (!record.ended()) return "could not be stopped in time";
  const std::string end = how_it_ended(*record.wait_status);
  return record.deserted.empty() ? end : fmt::format("{} {}", end, record.deserted);
}

Failure verdict_about(int root, const std::vector<RankRecord>& records) {
  const RankRecord& record = records.at(static_cast<std::size_t>(root));
  std::string what =
      fmt::format("{} (pid {}{}) {}", name_of(root, record), record.pid,
                  record.host.empty() ? "" : ", host " + record.host, how_it_ended(record));
  what += with_whom_it_died(record, records);
  if (record.report) what += fmt::format("; it told: {}", first_line(record.report->what));
  return {Fault::peer_lost, std::move(what), {root}};
}

std::string describe_generation(const Outcome& outcome, const std::vector<RankRecord>& records,
                                std::string_view host) {
  if (outcome.kind == Outcome::Kind::done) return {};
  std::string text = outcome.root ? about_failure(*outcome.root, records, host)
                                  : fmt::format("paceline: {}\n", about_reason(outcome));
  const auto others = what_ranks_did(records, outcome.root.value_or(-1));
  if (!others.empty()) text += fmt::format("paceline: {}\n", others);
  return text;
}

std::string describe_ending(const Outcome& outcome, const std::vector<RankRecord>& records,
                            std::string_view host) {
  if (outcome.kind == Outcome::Kind::done) return {};
  return describe_generation(outcome, records, host) +
         fmt::format("paceline: exit code {}\n", outcome.exit_code);
}

std::string describe_loss(int server, std::optional<int> successor,
                          const std::vector<RankRecord>& records, std::string_view host) {
  const RankRecord& record = records.at(static_cast<std::size_t>(server));
  std::string text =
      fmt::format("paceline: {} (pid {}, host {}) {}", name_of(server, record), record.pid,
                  record.host.empty() ? host : record.host, how_it_ended(record));
  if (record.report) text += fmt::format(" ({})", first_line(record.report->what));
  const int ranks = server - *record.server;
  return text + (successor
                     ? fmt::format("; the job goes on, and server {} is started in its place\n",
                                   *successor - ranks)
                     : std::string("; the job goes on without it\n"));
}

std::string name_ranks(const std::vector<int>& ascending, std::string_view one) {
  std::string text = fmt::format("{}{} ", one, ascending.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += fmt::format("{}", ascending[i]);
    if (last > i) text += fmt::format("{}{}", last > i + 1 ? "-" : ", ", ascending[last]);
    i = last + 1;
  }
  return text;
}

std::string verdict_json(const Outcome& outcome, const std::vector<RankRecord>& records,
                         const VerdictFacts& facts) {
  Json verdict;
  verdict["outcome"] = name_of(outcome.kind);
  verdict["exit_code"] = outcome.exit_code;
  verdict["job"] = facts.job;
  verdict["generation"] = facts.generation;
  verdict["ranks"] = facts.ranks;
  verdict["servers"] = static_cast<int>(records.size()) - facts.ranks;
  verdict["told"] = describe_ending(outcome, records, facts.host);
  Json processes = Json::array();
  for (int i = 0; i < static_cast<int>(records.size()); ++i)
    processes.push_back(process_of(i, records[static_cast<std::size_t>(i)], facts));
  if (outcome.root) verdict["first"] = processes[static_cast<std::size_t>(*outcome.root)];
  verdict["processes"] = std::move(processes);
  // Programs write what they like into a report, so its bytes may be no UTF-8.
  return verdict.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace paceline::launch
