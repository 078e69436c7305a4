#include "paceline/app/cli/shared/ranks_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "paceline/core/membership/handshake/member_name.h"

namespace paceline::cli {
namespace {

using observe::HostRank;

constexpr double kNanosecondsInSecond = 1e9;
constexpr std::string_view kStart = "all ranks to join";  // what joining.cpp waits for

bool is_same(const HostRank& a, const HostRank& b) {
  return a.pid == b.pid && a.status.server == b.status.server && a.status.rank == b.status.rank &&
         a.status.generation == b.status.generation && a.status.job == b.status.job;
}

bool is_server(const HostRank& one) {
  return one.status.server >= 0;
}

// "2 of 4 ranks and 1 server"
std::string members_here(const std::vector<HostRank>& all, const HostRank& of) {
  std::ptrdiff_t ranks = 0, servers = 0;
  for (const HostRank& one : all)
    if (one.status.job == of.status.job) ++(is_server(one) ? servers : ranks);
  std::string text = fmt::format("{} of {} ranks", ranks, of.status.world_size);
  if (servers > 0) text += fmt::format(" and {} server{}", servers, servers == 1 ? "" : "s");
  return text;
}

// The ranks of that job that have no page on this host though others wait here for the start.
std::vector<int> without_init(const std::vector<HostRank>& all, const HostRank& of) {
  bool is_starting = false;
  std::set<int> here;
  for (const HostRank& one : all) {
    if (one.status.job != of.status.job) continue;
    is_starting = is_starting || (one.status.waiting_since_ns != 0 &&
                                  std::string_view(one.status.waits_for.data()) == kStart);
    if (!is_server(one)) here.insert(one.status.rank);
  }
  std::vector<int> missing;
  for (int rank = 0; is_starting && rank < of.status.world_size; ++rank)
    if (!here.contains(rank)) missing.push_back(rank);
  return missing;
}

bool is_first_of_job(const std::vector<HostRank>& all, std::size_t i) {
  return i == 0 || all[i - 1].status.job != all[i].status.job;
}

// The seconds waited up to now, including a wait that has not ended.
double waited_seconds(const HostRank& rank, std::int64_t now_ns) {
  const auto& status = rank.status;
  const std::int64_t open = status.waiting_since_ns == 0
                                ? 0
                                : std::max<std::int64_t>(0, now_ns - status.waiting_since_ns);
  return static_cast<double>(status.waited_ns + open) / kNanosecondsInSecond;
}

bool has_stages(const HostRank& rank) {
  return rank.status.stages.numbers.front() != '\0';
}

// The share of the time between two looks, or of all time where no step has ended between them.
double bubble_between(const transport::RankStatus::Stages& sooner,
                      const transport::RankStatus::Stages& later) {
  std::int64_t idle = later.idle_ns - sooner.idle_ns,
               compute = later.compute_ns - sooner.compute_ns;
  if (idle < 0 || compute <= 0) idle = later.idle_ns, compute = later.compute_ns;
  const auto all = static_cast<double>(idle + compute);
  return all > 0 ? static_cast<double>(idle) / all : 0;
}

std::string work_of(const HostRank& rank, std::int64_t now_ns) {
  const auto& status = rank.status;
  if (status.waiting_since_ns != 0) {
    const double seconds =
        static_cast<double>(std::max<std::int64_t>(0, now_ns - status.waiting_since_ns)) /
        kNanosecondsInSecond;
    return fmt::format("waits {:.1f} s for {}", seconds, status.waits_for.data());
  }
  if (status.in_flight > 0)
    return fmt::format("computes, {} operation{} in flight", status.in_flight,
                       status.in_flight == 1 ? "" : "s");
  return "computes";
}

// Whether the others wait for this rank: it is the only rank of its job that does not wait.
bool holds_others_up(const HostRank& rank, const std::vector<HostRank>& ranks) {
  if (is_server(rank)) return false;
  int others = 0;
  for (const HostRank& other : ranks) {
    if (is_server(other) || other.status.job != rank.status.job ||
        other.status.rank == rank.status.rank)
      continue;
    if (other.status.waiting_since_ns == 0) return false;
    ++others;
  }
  return others > 0 && rank.status.waiting_since_ns == 0;
}

}  // namespace

std::vector<RankRates> rates(const Look& before, const Look& now) {
  const double seconds = static_cast<double>(now.at_ns - before.at_ns) / kNanosecondsInSecond;
  std::vector<RankRates> all;
  for (const HostRank& rank : now.ranks) {
    RankRates& rate = all.emplace_back();
    const auto earlier =
        std::ranges::find_if(before.ranks, [&](const HostRank& r) { return is_same(r, rank); });
    rate.bubble = bubble_between(
        earlier == before.ranks.end() ? transport::RankStatus::Stages{} : earlier->status.stages,
        rank.status.stages);
    if (earlier == before.ranks.end() || seconds <= 0) continue;
    const auto a_second = [&](auto later, auto sooner) {
      return std::max(0.0, static_cast<double>(later - sooner) / seconds);
    };
    rate.cpu = a_second(rank.cpu_seconds, earlier->cpu_seconds);
    rate.waiting = std::min(
        1.0, a_second(waited_seconds(rank, now.at_ns), waited_seconds(*earlier, before.at_ns)));
    rate.operations = a_second(rank.status.operations, earlier->status.operations);
    rate.pushes = a_second(rank.status.serves.pushes, earlier->status.serves.pushes);
    rate.steps = a_second(rank.status.step, earlier->status.step);
    rate.samples = a_second(rank.status.samples, earlier->status.samples);
  }
  return all;
}

std::string state_of(const HostRank& rank, std::int64_t now_ns, const RankRates& rates) {
  const auto& status = rank.status;
  const std::string stop = rank.stopped ? "stopped (kill -CONT goes on): " : "";
  if (is_server(rank)) {
    const auto& serves = status.serves;
    const std::string ranges =
        serves.ranges == 0
            ? "no tables"
            : fmt::format("{} range{} at clocks {} to {}", serves.ranges,
                          serves.ranges == 1 ? "" : "s", serves.lowest_clock, serves.highest_clock);
    const std::string chains =
        serves.chains[0] == 0 ? "" : fmt::format(", chain {}", serves.chains.data());
    const std::string rows = serves.rows == 0 ? "" : fmt::format(", {} rows", serves.rows);
    return fmt::format("{}serves {}{}, {:.0f} pushes a second{}", stop, ranges, rows, rates.pushes,
                       chains);
  }
  const std::string_view device = status.device.data();
  const std::string place = device.empty() ? "" : fmt::format("{}: ", device);
  const std::string work = place + stop + work_of(rank, now_ns);
  if (!has_stages(rank)) return work;
  return fmt::format("stage {}, bubble {:.0f} %: {}", status.stages.numbers.data(),
                     100 * rates.bubble, work);
}

std::string ranks_table(const Look& before, const Look& now, std::size_t columns) {
  const auto rate = rates(before, now);
  std::string text;
  const auto line = [&](std::string words) {
    for (char& c : words) c = static_cast<unsigned char>(c) < ' ' ? '?' : c;
    text += words.substr(0, columns) + "\n";
  };
  for (std::size_t i = 0; i < now.ranks.size(); ++i) {
    const HostRank& rank = now.ranks[i];
    const auto& status = rank.status;
    if (is_first_of_job(now.ranks, i)) {
      line(fmt::format("{}job {}, generation {}: {} on this host", i == 0 ? "" : " ",
                       status.job.data(), status.generation, members_here(now.ranks, rank)));
      if (const auto missing = without_init(now.ranks, rank); !missing.empty())
        line(
            fmt::format("  {} {} not called paceline::init() on this host: still loading, stuck, "
                        "or on another host",
                        membership::member_names(missing, status.world_size),
                        missing.size() == 1 ? "has" : "have"));
      line(
          "  RANK      PID   CPU   MEMORY    STEP  STEPS/S  SAMPLES/S      LOSS   OPS/S  WAITS  "
          "STATE");
    }
    const RankRates& r = rate[i];
    line(fmt::format(
        "{}{:>5} {:>8} {:>5.2f} {:>5} MiB {:>7} {:>8.2f} {:>10.0f} {:>9.4f} {:>7.0f} {:>5.0f}%  {}",
        holds_others_up(rank, now.ranks) ? "*" : " ",
        is_server(rank) ? fmt::format("s{}", status.server) : fmt::to_string(status.rank), rank.pid,
        r.cpu, rank.memory_bytes >> 20, status.step, r.steps, r.samples, status.loss, r.operations,
        100 * r.waiting, state_of(rank, now.at_ns, r)));
  }
  return text;
}

std::string ranks_json(const Look& before, const Look& now) {
  const auto rate = rates(before, now);
  auto ranks = nlohmann::ordered_json::array(), servers = ranks, starting = ranks;
  for (std::size_t i = 0; i < now.ranks.size(); ++i) {
    const auto& [pid, status, cpu_seconds, memory_bytes, stopped] = now.ranks[i];
    if (is_first_of_job(now.ranks, i)) {
      const auto missing = without_init(now.ranks, now.ranks[i]);
      if (!missing.empty())
        starting.push_back({{"job", status.job.data()}, {"without_init", missing}});
    }
    if (is_server(now.ranks[i])) {
      servers.push_back({{"job", status.job.data()},
                         {"generation", status.generation},
                         {"server", status.server},
                         {"pid", pid},
                         {"stopped", stopped},
                         {"cpu", rate[i].cpu},
                         {"memory_bytes", memory_bytes},
                         {"ranges", status.serves.ranges},
                         {"lowest_clock", status.serves.lowest_clock},
                         {"highest_clock", status.serves.highest_clock},
                         {"pushes", status.serves.pushes},
                         {"rows", status.serves.rows},
                         {"chains", status.serves.chains.data()},
                         {"pushes_per_second", rate[i].pushes}});
      continue;
    }
    ranks.push_back({{"job", status.job.data()},
                     {"generation", status.generation},
                     {"rank", status.rank},
                     {"world_size", status.world_size},
                     {"pid", pid},
                     {"cpu", rate[i].cpu},
                     {"memory_bytes", memory_bytes},
                     {"step", status.step},
                     {"steps_per_second", rate[i].steps},
                     {"samples_per_second", rate[i].samples},
                     {"loss", status.loss},
                     {"operations", status.operations},
                     {"operations_per_second", rate[i].operations},
                     {"in_flight", status.in_flight},
                     {"stopped", stopped},
                     {"waiting_share", rate[i].waiting},
                     {"state", state_of(now.ranks[i], now.at_ns, rate[i])}});
    if (status.device.front() != '\0') ranks.back()["device"] = status.device.data();
    if (!has_stages(now.ranks[i])) continue;
    ranks.back()["stages"] = status.stages.numbers.data();
    ranks.back()["bubble"] = rate[i].bubble;
  }
  nlohmann::ordered_json look = {{"ranks", ranks}};
  if (!servers.empty()) look["servers"] = servers;
  if (!starting.empty()) look["starting"] = starting;
  return look.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace paceline::cli
