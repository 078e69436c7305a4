#include "paceline/app/measure/clock_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/machine/virtual_network.h"
#include "paceline/core/server/machine/table_machine.h"
#include "paceline/core/server/server.h"
#include "paceline/core/server/table/table_spec.h"

namespace paceline::measure {
namespace {

using machine::Actions;
using machine::Time;
using server::TableMachine;
using server::WorkerMachine;

// A worker of a table that computes, pushes and pulls until its clock has come to the end.
class PacedWorker final : public machine::Machine {
 public:
  static constexpr std::uint32_t kStart = 1;  // told from outside

  PacedWorker(const server::TableShape& shape, int member, const ClockOptions& options)
      : shape_(shape), member_(member), options_(options), table_(shape, member) {}

  Actions on_message(int from, const machine::Message& message, Time now) override {
    if (from != kOutside) return go_on(table_.on_message(from, message, now), now);
    const std::vector<std::byte> first(member_ == 0 ? shape_.spec.elements * shape_.element_bytes()
                                                    : 0);
    return work([&](WorkerMachine& one, Time) { return one.assign(first); }, now);
  }
  Actions on_timer(std::uint32_t timer, Time now) override {
    if (timer != kComputed) return go_on(table_.on_timer(timer, now), now);
    const std::vector<std::byte> update(shape_.spec.elements * shape_.element_bytes());
    Actions actions =
        work([&](WorkerMachine& one,
                 Time) { return one.push(update, 1, server::values_of(shape_.rule)); },
             now);
    append(actions, pull(now));
    return actions;
  }
  Actions on_lost(int, Time) override { return {}; }

  double clocks_per_second() const {
    const double seconds = std::chrono::duration<double>(end_ - begin_).count();
    return static_cast<double>(clock()) / seconds;
  }

  static constexpr int kOutside = -1;

 private:
  enum class Phase { starting, pulling, computing, done };
  static constexpr std::uint32_t kComputed = 1'000'000;

  std::int64_t clock() const {
    return table_.look([](const auto& one) { return one.clock(); });
  }
  Actions work(TableMachine::Work what, Time now) {
    table_.do_work(std::move(what));
    return table_.on_message(member_, {.kind = TableMachine::kWork}, now);
  }
  Actions pull(Time now) {
    phase_ = Phase::pulling;
    return work([](WorkerMachine& one, Time) { return one.pull(); }, now);
  }

  Actions go_on(Actions actions, Time now) {
    const bool has_row = table_.look(
        [](const auto& one) { return one.has_pulled() && one.answered() == one.pushes(); });
    if (phase_ == Phase::starting &&
        table_.look([](const auto& one) { return one.is_assigned(); })) {
      append(actions, pull(now));
    } else if (phase_ == Phase::pulling && has_row) {
      append(actions, compute(now));
    }
    return actions;
  }

  Actions compute(Time now) {
    const std::int64_t at = clock();
    if (at == 0) begin_ = now;
    end_ = now;
    phase_ = at < options_.clocks ? Phase::computing : Phase::done;
    if (phase_ == Phase::done) return {};
    const int workers = static_cast<int>(shape_.members.workers.size());
    const double factor = options_.slow ? options_.slow->factor_of(member_, at, workers) : 1;
    const std::chrono::duration<double> seconds(options_.pace * factor);
    return {machine::Arm{kComputed, now + std::chrono::duration_cast<Time>(seconds)}};
  }

  const server::TableShape& shape_;
  const int member_;
  const ClockOptions& options_;
  TableMachine table_;
  Phase phase_ = Phase::starting;
  Time begin_ = {}, end_ = {};
};

}  // namespace

double Slowness::factor_of(int of, std::int64_t clock, int ranks) const {
  if (rank >= 0) return of == rank ? factor : 1;
  SeededNumbers numbers(seed + static_cast<std::uint64_t>(clock));
  return numbers.next() % static_cast<std::uint64_t>(ranks) == static_cast<std::uint64_t>(of)
             ? factor
             : 1;
}

ClockFigures clocks_of_workers(Job& job, const ClockOptions& options) {
  server::Table table(job, {.name = fmt::format("bench/clocks/{}", options.synchrony),
                            .elements = options.elements,
                            .synchrony = options.synchrony,
                            .rule = "sgd"});
  std::vector<float> values(options.elements, 0), update(options.elements, 1);
  table.assign(buffer_of(values)).wait();
  table.pull(buffer_of(values)).wait();
  job.world().barrier().wait();
  const auto begin = Clock::now();
  while (table.clock() < options.clocks) {
    const double factor =
        options.slow ? options.slow->factor_of(job.rank(), table.clock(), job.world_size()) : 1;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.pace * factor));
    server::Answer pushed = table.push(buffer_of(update), {.rate = 1e-3});
    table.pull(buffer_of(values)).wait();
    pushed.wait();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::vector<double> rate = {static_cast<double>(table.clock()) / seconds};
  job.world().all_reduce(buffer_of(rate), {.op = ReduceOp::average}).wait();
  std::vector<double> stale = {0, 0}, most = {0};  // versions and updates, summed up
  for (const auto& [versions, updates] : table.figures().staleness) {
    stale[0] += static_cast<double>(versions * updates);
    stale[1] += static_cast<double>(updates);
    most[0] = std::max(most[0], static_cast<double>(versions));
  }
  job.world().all_reduce(buffer_of(stale)).wait();
  job.world().all_reduce(buffer_of(most), {.op = ReduceOp::max}).wait();
  return {rate[0], stale[1] > 0 ? stale[0] / stale[1] : 0, most[0]};
}

// A few elements do: only who waits for whom counts.
double forecast_clocks_per_second(const ClockOptions& options, int workers, int servers) {
  const server::TableSpec spec = {.name = "forecast",
                                  .elements = static_cast<std::size_t>(servers),
                                  .synchrony = options.synchrony,
                                  .rule = "sgd",
                                  .part_bytes = sizeof(float)};
  const auto shape =
      server::shape_of(spec, server::TableMembers::of_servers(workers, servers)).value();
  const Time delay = std::chrono::microseconds(1);
  machine::VirtualNetwork network(1, {.least_delay = delay, .most_delay = delay});
  std::vector<std::unique_ptr<TableMachine>> serving;
  for (const int member : shape.members.servers)
    network.add(member, *serving.emplace_back(std::make_unique<TableMachine>(shape, member)));
  std::vector<std::unique_ptr<PacedWorker>> working;
  for (const int member : shape.members.workers)
    network.add(member,
                *working.emplace_back(std::make_unique<PacedWorker>(shape, member, options)));
  for (const int member : shape.members.workers)
    network.tell(member, PacedWorker::kOutside, {.kind = PacedWorker::kStart});
  network.run();
  double sum = 0;
  for (const auto& worker : working) sum += worker->clocks_per_second();
  return sum / workers;
}

}  // namespace paceline::measure
