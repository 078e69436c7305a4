// A table on servers in virtual time: workers that pull, compute for a while and push, again and
// again, on a network that may delay, overtake, lose and double messages.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/machine/virtual_network.h"
#include "paceline/core/server/machine/table_machine.h"
#include "tests/core/server/machine/virtual_chains.h"
#include "tests/support/nightly.h"

namespace paceline::test {

// The values that worker `worker` pulled for its clock.
struct TableRead {
  int worker = 0;
  std::int64_t clock = 0;
  std::vector<std::int64_t> row_clocks;  // by range
  std::vector<double> values;
};

inline std::vector<std::byte> bytes_of_doubles(std::span<const double> values, Dtype dtype) {
  const std::vector<float> narrow(values.begin(), values.end());
  const auto bytes = dtype == Dtype::f64 ? std::as_bytes(values) : std::as_bytes(std::span(narrow));
  return {bytes.begin(), bytes.end()};
}

inline std::vector<double> doubles_of_bytes(Bytes bytes, Dtype dtype) {
  const std::size_t count = bytes.size() / size_of(dtype);
  std::vector<double> wide(count);
  std::vector<float> narrow(count);
  if (count == 0) return wide;
  if (dtype == Dtype::f64) {
    std::memcpy(wide.data(), bytes.data(), bytes.size());
  } else {
    std::memcpy(narrow.data(), bytes.data(), bytes.size());
    std::ranges::copy(narrow, wide.begin());
  }
  return wide;
}

// This is what all workers of a virtual table do and see.
struct TableTraining {
  std::int64_t steps = 6;
  std::vector<double> first;  // values
  std::function<std::vector<double>(int worker, std::int64_t clock, std::span<const double>)>
      update;
  std::function<machine::Time(int worker, std::int64_t clock)> computes;
  std::function<double(int worker)> weight = [](int) { return 1.0; };
  bool keeps_reads = true;
  bool quiesces = false;        // at the end of the steps, and reads once more
  bool rests_at_once = false;   // quiesces behind the last push, without a pull between them
  bool leaves_at_once = false;  // behind the last push
  std::optional<std::int64_t> rests_at = {};  // quiesces at this clock too, and goes on
  std::function<bool(const TableRead&)> is_over = [](const TableRead&) { return false; };

  std::vector<TableRead> reads = {};
  std::map<int, std::int64_t> clocks = {};  // of workers at work
  std::int64_t most_apart = 0;
  void note_clock(int worker, std::int64_t clock) {
    clocks[worker] = clock;
    const auto [low, high] =
        std::ranges::minmax_element(clocks, {}, [](const auto& one) { return one.second; });
    most_apart = std::max(most_apart, high->second - low->second);
  }
};

class TableTrainer final : public machine::Machine {
 public:
  enum Kind : std::uint32_t { kStart = 1000, kLeave };  // told from outside

  TableTrainer(const server::TableShape& shape, int member, const server::WorkerOptions& options,
               TableTraining& training)
      : table(shape, member, options), shape_(shape), member_(member), training_(training) {}

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override {
    if (message.kind == kStart) return start(now);
    if (message.kind == kLeave) return leave(now);
    if (from == kController)
      return go_on(
          table.on_message(
              member_, {.kind = server::TableMachine::kChains, .payload = message.payload}, now),
          now);
    return go_on(table.on_message(from, message, now), now);
  }
  machine::Actions on_timer(std::uint32_t timer, machine::Time now) override {
    if (timer != kComputed) return go_on(table.on_timer(timer, now), now);
    return phase_ == Phase::computing ? push(now) : machine::Actions{};
  }
  machine::Actions on_lost(int peer, machine::Time now) override {
    return go_on(table.on_lost(peer, now), now);
  }

  bool is_done() const {
    return phase_ == Phase::left
               ? table.look([](const auto& one) { return one.has_left(); })
               : phase_ == Phase::done &&
                     table.look([](const auto& one) { return one.is_answered(); });
  }
  std::vector<double> values() const {
    return table.look(
        [&](const auto& one) { return doubles_of_bytes(one.values(), shape_.spec.dtype); });
  }
  std::uint64_t dropped() const {
    return table.look([](const auto& one) { return one.dropped(); });
  }

  server::TableMachine table;

 private:
  enum class Phase { waiting, starting, pulling, computing, resting, quiescing, done, left };
  static constexpr std::uint32_t kComputed = 1'000'000;
  using Worker = server::WorkerMachine;

  machine::Actions work(server::TableMachine::Work what, machine::Time now) {
    table.do_work(std::move(what));
    return table.on_message(member_, {.kind = server::TableMachine::kWork}, now);
  }

  machine::Actions start(machine::Time now) {
    phase_ = Phase::starting;
    machine::Actions actions =
        work([](Worker& one, machine::Time at) { return one.start(at); }, now);
    const auto& workers = shape_.members.workers;
    if (std::ranges::find(workers, member_) != workers.end()) {
      training_.note_clock(member_, 0);
      const auto first = member_ == workers.front()
                             ? bytes_of_doubles(training_.first, shape_.spec.dtype)
                             : std::vector<std::byte>{};
      append(actions, work([&](Worker& one, machine::Time) { return one.assign(first); }, now));
    }
    return actions;
  }

  machine::Actions leave(machine::Time now) {
    phase_ = Phase::left;
    training_.clocks.erase(member_);
    return work([](Worker& one, machine::Time) { return one.leave(); }, now);
  }

  machine::Actions go_on(machine::Actions actions, machine::Time now) {
    const auto has = [&](auto what) { return table.look(what); };
    if (phase_ == Phase::starting &&
        has([](const auto& one) { return one.is_ready() && one.is_assigned(); })) {
      append(actions, pull(now));
    } else if ((phase_ == Phase::pulling || phase_ == Phase::resting) &&
               has([](const auto& one) { return one.has_pulled(); })) {
      append(actions, compute(now));
    } else if (phase_ == Phase::quiescing &&
               has([](const auto& one) { return one.has_pulled(); })) {
      phase_ = Phase::done;
      training_.reads.push_back(this->read());
    }
    return actions;
  }
  TableRead read() const {
    return table.look([&](const auto& one) {
      return TableRead{member_, one.clock(), one.row_clocks(),
                       doubles_of_bytes(one.values(), shape_.spec.dtype)};
    });
  }

  machine::Actions pull(machine::Time now) {
    phase_ = Phase::pulling;
    return work([](Worker& one, machine::Time) { return one.pull(); }, now);
  }

  machine::Actions compute(machine::Time now) {
    TableRead read = this->read();
    if (!training_.clocks.contains(member_)) training_.note_clock(member_, read.clock);
    clock_ = read.clock;
    if (training_.rests_at == clock_ && phase_ != Phase::resting) {
      phase_ = Phase::resting;
      return work([](Worker& one, machine::Time) { return one.quiesce(); }, now);
    }
    const bool is_over = read.clock >= training_.steps || training_.is_over(read);
    update_ = is_over ? std::vector<double>{} : training_.update(member_, clock_, read.values);
    if (training_.keeps_reads) training_.reads.push_back(std::move(read));
    phase_ = !is_over ? Phase::computing : training_.quiesces ? Phase::quiescing : Phase::done;
    if (phase_ == Phase::quiescing)
      return work([](Worker& one, machine::Time) { return one.quiesce(); }, now);
    if (is_over) return {};
    return {machine::Arm{kComputed, now + training_.computes(member_, clock_)}};
  }

  machine::Actions push(machine::Time now) {
    using namespace std::chrono_literals;
    if (!table.look([](const auto& one) { return one.can_push(); }))
      return {machine::Arm{kComputed, now + 5ms}};
    const auto bytes = bytes_of_doubles(update_, shape_.spec.dtype);
    machine::Actions actions = work(
        [&](Worker& one, machine::Time) {
          return one.push(bytes, training_.weight(member_), server::values_of(shape_.rule));
        },
        now);
    if (!shape_.pacing.skips_steps()) training_.note_clock(member_, clock_ + 1);
    const bool is_last = clock_ + 1 >= training_.steps;
    if (training_.leaves_at_once && is_last) {
      append(actions, leave(now));
    } else if (training_.rests_at_once && is_last) {
      phase_ = Phase::quiescing;
      append(actions, work([](Worker& one, machine::Time) { return one.quiesce(); }, now));
    } else {
      append(actions, pull(now));
    }
    return actions;
  }

  const server::TableShape& shape_;
  const int member_;
  TableTraining& training_;
  Phase phase_ = Phase::waiting;
  std::int64_t clock_ = 0;
  std::vector<double> update_;
};

using namespace std::chrono_literals;
inline constexpr machine::Time kResendAfter = 50ms;
inline constexpr machine::NetworkFaults kBadWeather = {
    .least_delay = 1ms, .most_delay = 10ms, .loss = 0.05, .duplication = 0.05, .overtaking = true};

// Workers 0, 1, ... and the servers after them, all of which have begun. `through` may put another
// machine in the place of a member's own.
struct VirtualTable {
  using Through = std::function<machine::Machine&(int member, machine::Machine& own)>;

  server::TableShape shape;
  TableTraining& training;
  machine::VirtualNetwork network;
  Through through;
  std::map<int, std::unique_ptr<TableTrainer>> workers;
  std::map<int, std::unique_ptr<server::TableMachine>> servers;  // where ranges have one
  std::unique_ptr<VirtualChains> chains;                         // where they have several
  std::set<int> gone;
  bool resends;

  VirtualTable(
      const server::TableSpec& spec, int worker_count, int server_count, TableTraining& of,
      const machine::NetworkFaults& weather, std::uint64_t seed,
      Through hook = [](int, machine::Machine& own) -> machine::Machine& { return own; })
      : shape(server::shape_of(spec, members(worker_count, server_count)).value()),
        training(of),
        network(seed, weather),
        through(std::move(hook)),
        resends(weather.loss > 0) {
    if (spec.replicas > 1) chains = std::make_unique<VirtualChains>(network, shape, kResendAfter);
    for (const int member : shape.members.servers) {
      if (chains) break;
      servers[member] = std::make_unique<server::TableMachine>(shape, member);
      network.add(member, through(member, *servers[member]));
    }
    for (const int member : shape.members.workers) add_worker(member, false);
  }

  void add_worker(int member, bool is_newcomer) {
    const server::WorkerOptions options = {is_newcomer, resends ? kResendAfter : machine::Time{}};
    workers[member] = std::make_unique<TableTrainer>(shape, member, options, training);
    network.add(member, through(member, *workers[member]));
    network.tell(member, -1, {.kind = TableTrainer::kStart});
    if (chains && is_newcomer) chains->worker_came(member);
  }

  bool is_done() const {
    return std::ranges::all_of(workers, [&](const auto& one) {
      return gone.contains(one.first) || one.second->is_done();
    });
  }
  void run_to(machine::Time at) {
    if (chains) chains->run(at);
    else network.run(at);
  }
  // Returns whether all workers have come to their ends.
  bool run(machine::Time longest = 60s) {
    for (machine::Time at = network.now(); !is_done() && at < longest; at += 20ms) run_to(at);
    return is_done();
  }
  // The range's machine, on its server.
  const server::RangeMachine& range(std::size_t number) const {
    if (chains) return chains->tail(number);
    return servers.at(shape.server_of(number))->parts().at(static_cast<std::uint32_t>(number));
  }
  // The whole table as the servers hold it.
  std::vector<double> held() const {
    std::vector<std::byte> table(shape.spec.elements * shape.element_bytes());
    for (std::size_t i = 0; i < shape.ranges.size(); ++i)
      shape.scatter(i, range(i).value().view(server::kAnyLead).values, table);
    return doubles_of_bytes(table, shape.spec.dtype);
  }

 private:
  static server::TableMembers members(int worker_count, int server_count) {
    server::TableMembers all;
    for (int i = 0; i < worker_count; ++i) all.workers.push_back(i);
    for (int i = 0; i < server_count; ++i) all.servers.push_back(worker_count + i);
    return all;
  }
};

// How many worlds a test tries; at night a hundred times as many.
inline int worlds_of(int normal) {
  return is_nightly() ? 100 * normal : is_brief() ? std::max(1, normal / 10) : normal;
}

// Computing takes 5 to 60 ms; in every third world worker 0 takes four times as long.
inline std::function<machine::Time(int, std::int64_t)> drawn_times(std::uint64_t seed) {
  return [seed](int worker, std::int64_t clock) {
    SeededNumbers numbers(
        mix(mix(seed, static_cast<std::uint64_t>(worker)), static_cast<std::uint64_t>(clock)));
    const double slow = worker == 0 && seed % 3 == 0 ? 4 : 1;
    return machine::Time(static_cast<machine::Time::rep>((5 + 55 * numbers.unit()) * slow * 1e6));
  };
}

}  // namespace paceline::test
