// Three workers that push marks to two servers under ssp or asp, and the laws of their reads.
#pragma once

#include <fmt/format.h>

#include <string>

#include "tests/core/server/machine/marked_updates.h"

namespace paceline::test {

struct SspWorld {
  static constexpr int kWorkers = 3, kServers = 2;
  // Newcomers are members 100, 101, ..., and have the marks of workers 3, 4, ...
  static constexpr int kNewcomers = 100;
  static int number_of(int member) {
    return member < kNewcomers ? member : member - kNewcomers + kWorkers;
  }

  const std::optional<std::int64_t> staleness;  // nothing: asp
  SeededNumbers numbers;
  MarkedUpdates marks;
  TableTraining training;
  VirtualTable table;
  std::int64_t newest = INT64_MIN;  // stamp of others in a read, less the reader's clock

  SspWorld(
      std::optional<std::int64_t> of, std::uint64_t seed, const std::string& more = "",
      std::int64_t steps = 8, machine::NetworkFaults weather = kBadWeather,
      VirtualTable::Through through = [](int, machine::Machine& own) -> machine::Machine& {
        return own;
      },
      int servers = kServers, int replicas = 1)
      : staleness(of),
        numbers(seed),
        training{.steps = steps,
                 .first = std::vector<double>(marks.ranges * marks.block()),
                 .update =
                     [this](int worker, std::int64_t clock, std::span<const double>) {
                       return marks.update(number_of(worker), clock, 1);
                     },
                 .computes = drawn_times(seed)},
        table(spec_of(of, more, replicas), kWorkers, servers, training, weather, numbers.next(),
              std::move(through)) {}

  server::TableSpec spec_of(std::optional<std::int64_t> of, const std::string& more, int replicas) {
    auto spec = marks.spec(
        of ? fmt::format("ssp:staleness={},update=worker{}", *of, more) : "asp:update=worker",
        "add");
    spec.replicas = replicas;
    return spec;
  }

  // At random moments a worker is lost or leaves, and another one comes.
  void churn(int times) {
    const auto has_begun = [&] {
      return table.workers.at(0)->table.look([](const auto& one) { return one.is_assigned(); });
    };
    for (machine::Time at = 0ms; at == 0ms || !has_begun(); at += 1ms) table.run_to(at);
    for (int i = 0; i < times; ++i) {
      const machine::Time at(static_cast<machine::Time::rep>((20 + 180 * numbers.unit()) * 1e6));
      table.run_to(std::max(at, table.network.now()));
      const int victim = static_cast<int>(numbers.below(kWorkers));
      if (numbers.below(3) > 0 && !table.gone.contains(victim)) {
        table.gone.insert(victim);
        training.clocks.erase(victim);
        if (numbers.below(2) == 0) {
          if (table.chains) table.chains->worker_lost(victim);
          table.network.kill(victim, table.network.now());
        } else {
          table.network.tell(victim, -1, {.kind = TableTrainer::kLeave});
        }
      }
      table.add_worker(kNewcomers + i, true);
    }
  }

  // Empty, or the first law that is broken.
  std::string complaint() {
    std::map<int, std::int64_t> starts;
    for (const TableRead& read : training.reads) {
      const auto [at, is_new] = starts.try_emplace(read.worker, read.clock);
      at->second = std::min(at->second, read.clock);
    }
    for (const TableRead& read : training.reads)
      for (std::size_t range = 0; range < marks.ranges; ++range)
        if (auto why = complaint_of_read(read, range, starts); !why.empty()) return why;
    return complaint_of_end(starts);
  }

 private:
  std::string complaint_of_read(const TableRead& read, std::size_t range,
                                const std::map<int, std::int64_t>& starts) {
    for (const auto& [worker, start] : starts) {
      for (std::int64_t t = 0; t < marks.clocks; ++t) {
        const double count = read.values[marks.place(range, number_of(worker), t)];
        const bool is_own = worker == read.worker;
        const bool is_needed = is_own ? t >= start && t < read.clock
                                      : staleness && !table.gone.contains(worker) && t >= start &&
                                            t < read.clock - *staleness;
        if (count != 0 && count != 1)
          return fmt::format("worker {} at {} sees update {} of {} {} times", read.worker,
                             read.clock, t, worker, count);
        if (is_needed && count == 0)
          return fmt::format("worker {} at {} misses update {} of {}", read.worker, read.clock, t,
                             worker);
        if (count == 1 && !is_own) newest = std::max(newest, t - read.clock);
      }
    }
    return {};
  }

  std::string complaint_of_end(const std::map<int, std::int64_t>& starts) const {
    const std::vector<double> held = table.held();
    for (const auto& [worker, start] : starts) {
      for (std::size_t range = 0; range < marks.ranges; ++range) {
        for (std::int64_t t = 0; t < training.steps; ++t) {
          const double count = held[marks.place(range, number_of(worker), t)];
          const bool is_due = t >= start && !table.gone.contains(worker);
          if (is_due ? count != 1 : count != 0 && count != 1)
            return fmt::format("at the end update {} of {} is there {} times", t, worker, count);
        }
      }
    }
    return {};
  }
};

}  // namespace paceline::test
