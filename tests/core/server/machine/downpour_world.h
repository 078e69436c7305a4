// Workers of Downpour SGD and their servers in virtual time. A step computes for a while; values
// that it has asked for come meanwhile, or the worker waits for them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/server/machine/downpour_course.h"
#include "tests/core/server/machine/virtual_table.h"

namespace paceline::test {

// This is what all workers do and see.
struct DownpourTraining {
  server::DownpourPlan plan;
  double local_rate = 0;
  std::int64_t steps = 20;  // of each worker
  std::vector<double> first;
  std::function<std::vector<double>(int worker, std::int64_t step, std::span<const double>)>
      gradient;
  std::function<machine::Time(int worker, std::int64_t step)> computes;

  // The steps of all in the order in which they began, with the values of their gradients.
  struct Begun {
    int worker = 0;
    std::int64_t step = 0;
    std::vector<double> values;
  };
  std::vector<Begun> begun = {};
};

class DownpourTrainer final : public machine::Machine {
 public:
  enum Kind : std::uint32_t { kStart = 1000 };  // told from outside

  DownpourTrainer(const server::TableShape& shape, int member, machine::Time resend_after,
                  DownpourTraining& training)
      : table(shape, member, {false, resend_after}),
        shape_(shape),
        member_(member),
        training_(training),
        course_(training.plan, member == shape.members.workers.front(),
                static_cast<int>(shape.members.workers.size())),
        accrued_(training.first.size()) {}

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override {
    if (message.kind == kStart) {
      actions_ = do_work([](Worker& one, machine::Time at) { return one.start(at); }, now);
      const auto first = is_first() ? bytes_of_doubles(training_.first, shape_.spec.dtype)
                                    : std::vector<std::byte>{};
      append(actions_, do_work([&](Worker& one, machine::Time) { return one.assign(first); }, now));
      phase_ = Phase::starting;
    } else {
      actions_ = table.on_message(from, message, now);
    }
    return go_on(now);
  }
  machine::Actions on_timer(std::uint32_t timer, machine::Time now) override {
    if (timer == kComputed) computed();
    else if (timer != kTryAgain) actions_ = table.on_timer(timer, now);
    return go_on(now);
  }
  machine::Actions on_lost(int peer, machine::Time now) override {
    actions_ = table.on_lost(peer, now);
    return go_on(now);
  }

  bool is_done() const {
    return phase_ == Phase::done && table.look([](const auto& one) { return one.is_answered(); });
  }
  const std::vector<double>& values() const { return local_; }

  server::TableMachine table;

 private:
  // Each waits for what it is named by.
  enum class Phase {
    start,
    starting,
    resting,
    computing,
    taking,
    pushing,
    fetching,
    flushing,
    done
  };
  static constexpr std::uint32_t kComputed = 1'000'000, kTryAgain = 1'000'001;
  using Worker = server::WorkerMachine;

  bool is_first() const { return member_ == shape_.members.workers.front(); }
  bool has_pulled() const {
    return table.look([](const auto& one) { return one.has_pulled(); });
  }
  machine::Actions do_work(server::TableMachine::Work what, machine::Time now) {
    table.do_work(std::move(what));
    return table.on_message(member_, {.kind = server::TableMachine::kWork}, now);
  }
  void take_values() {
    local_ = table.look(
        [&](const auto& one) { return doubles_of_bytes(one.values(), shape_.spec.dtype); });
  }

  void computed() {
    for (std::size_t i = 0; i < local_.size(); ++i) {
      accrued_[i] += gradient_[i];
      local_[i] -= training_.local_rate * gradient_[i];
    }
    ++step_;
    course_.step_made();
    phase_ = Phase::taking;
  }

  machine::Actions go_on(machine::Time now) {
    while (go_further(now)) {
    }
    return std::exchange(actions_, {});
  }
  // Whether the phase has changed.
  bool go_further(machine::Time now) {
    switch (phase_) {
      case Phase::starting:
        if (!table.look([](const auto& one) { return one.is_ready() && one.is_assigned(); }))
          return false;
        local_ = training_.first;
        return course_.waits() ? rest(now) : begin_step(now);
      case Phase::taking:
        if (!has_pulled()) return false;
        if (std::exchange(has_asked_, false)) take_values();
        phase_ = Phase::pushing;
        return true;
      case Phase::pushing:
        if (course_.pushes() && !push(now)) return false;
        if (!course_.fetches()) return end_step(now);
        pull(now);
        phase_ = Phase::fetching;
        return true;
      case Phase::fetching:
        if (!has_pulled()) return false;
        take_values();
        return end_step(now);
      case Phase::flushing:
        if (course_.has_accrued() && !push(now)) return false;
        return rest(now);
      case Phase::resting:
        if (!has_pulled()) return false;
        take_values();
        course_.rested();
        return begin_step(now);
      case Phase::start:
      case Phase::computing:
      case Phase::done: break;
    }
    return false;
  }

  bool begin_step(machine::Time now) {
    phase_ = step_ == training_.steps ? Phase::done : Phase::computing;
    if (phase_ == Phase::done) return false;
    if (course_.asks()) pull(now);
    has_asked_ = course_.asks();
    gradient_ = training_.gradient(member_, step_, local_);
    training_.begun.push_back({member_, step_, local_});
    actions_.emplace_back(machine::Arm{kComputed, now + training_.computes(member_, step_)});
    return false;
  }
  bool end_step(machine::Time now) {
    if (step_ < training_.steps && !course_.ends_warm_start()) return begin_step(now);
    phase_ = Phase::flushing;
    return true;
  }
  bool rest(machine::Time now) {
    append(actions_, do_work([](Worker& one, machine::Time) { return one.quiesce(); }, now));
    phase_ = Phase::resting;
    return true;
  }
  void pull(machine::Time now) {
    append(actions_, do_work([](Worker& one, machine::Time) { return one.pull(); }, now));
  }
  // False: its window has no room yet.
  bool push(machine::Time now) {
    if (!table.look([](const auto& one) { return one.can_push(); })) {
      actions_.emplace_back(machine::Arm{kTryAgain, now + machine::Time(5'000'000)});
      return false;
    }
    for (double& one : accrued_) one *= course_.factor();
    const auto bytes = bytes_of_doubles(accrued_, shape_.spec.dtype);
    append(actions_, do_work(
                         [&](Worker& one, machine::Time) {
                           return one.push(bytes, 1, server::values_of(shape_.rule));
                         },
                         now));
    std::ranges::fill(accrued_, 0);
    return true;
  }

  const server::TableShape& shape_;
  const int member_;
  DownpourTraining& training_;
  server::DownpourCourse course_;
  Phase phase_ = Phase::start;
  std::int64_t step_ = 0;
  bool has_asked_ = false;
  std::vector<double> local_, gradient_, accrued_;
  machine::Actions actions_;  // of the present event
};

struct DownpourWorld {
  DownpourTraining training;
  server::TableShape shape;
  machine::VirtualNetwork network;
  std::map<int, std::unique_ptr<DownpourTrainer>> workers;
  std::map<int, std::unique_ptr<server::TableMachine>> servers;

  DownpourWorld(DownpourTraining of, const std::string& rule, int worker_count, int server_count,
                const machine::NetworkFaults& weather, std::uint64_t seed)
      : training(std::move(of)),
        shape(server::shape_of({.name = "w",
                                .elements = training.first.size(),
                                .dtype = Dtype::f64,
                                .synchrony = "downpour",
                                .rule = rule,
                                .part_bytes = 5 * sizeof(double)},
                               server::TableMembers::of_servers(worker_count, server_count))
                  .value()),
        network(seed, weather) {
    for (const int member : shape.members.servers) {
      servers[member] = std::make_unique<server::TableMachine>(shape, member);
      network.add(member, *servers[member]);
    }
    const machine::Time resend_after = weather.loss > 0 ? kResendAfter : machine::Time{};
    for (const int member : shape.members.workers) {
      workers[member] = std::make_unique<DownpourTrainer>(shape, member, resend_after, training);
      network.add(member, *workers[member]);
      network.tell(member, -1, {.kind = DownpourTrainer::kStart});
    }
  }

  // Returns whether all workers have come to their ends.
  bool run() {
    const auto is_done = [&] {
      return std::ranges::all_of(workers, [](const auto& one) { return one.second->is_done(); });
    };
    for (machine::Time at = network.now(); !is_done() && at < 10000s; at += 20ms) network.run(at);
    return is_done();
  }
  // The workers have these after the last rest.
  const std::vector<double>& values() const { return workers.begin()->second->values(); }
};

}  // namespace paceline::test
