#include "paceline/app/launch/ending/verdict_json.h"

#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "paceline/app/launch/ending/ending.h"

namespace paceline::launch {
namespace {

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
  if (record.report) process["told"] = record.report->what;
  return process;
}

}  // namespace

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
