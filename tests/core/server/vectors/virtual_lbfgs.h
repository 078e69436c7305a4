// A full-batch L-BFGS on servers in virtual time: workers that compute portions for a while, some
// of which die.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "paceline/core/machine/virtual_network.h"
#include "paceline/core/server/vectors/vector_member.h"
#include "paceline/core/server/vectors/vector_server.h"
#include "paceline/core/transport/frame/frame.h"
#include "tests/core/server/vectors/logistic_problem.h"

namespace paceline::test {

using namespace std::chrono_literals;

// The sums of a portion, by its parameters; and how long they take.
struct PortionTraining {
  std::function<LossAndGradient(std::span<const double>, std::int64_t begin, std::int64_t end)>
      sums;
  std::function<machine::Time(int worker, std::int64_t portion)> computes = [](int, std::int64_t) {
    return machine::Time(1ms);
  };
  int iterations = 10;
};

class LbfgsWorker final : public machine::Machine {
 public:
  enum Kind : std::uint32_t { kStart = 1000 };

  LbfgsWorker(const server::VectorShape& shape, int own, const PortionTraining& training)
      : member(shape, own, {}), shape_(shape), own_(own), training_(training) {}

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override {
    machine::Actions actions;
    if (message.kind == kStart) {
      actions = start();
    } else {
      actions = member.on_message(from, message, now);
    }
    return counted(go_on(std::move(actions), now));
  }
  machine::Actions on_timer(std::uint32_t, machine::Time now) override {
    computes_ = false;
    ++computed;
    const auto bytes = std::as_bytes(std::span(sums_.gradient));
    auto actions = work([&](auto& worker) { return worker.computed(sums_.loss, bytes); }, now);
    return counted(go_on(std::move(actions), now));
  }
  machine::Actions on_lost(int peer, machine::Time now) override {
    return counted(go_on(member.on_lost(peer, now), now));
  }

  bool is_done() const { return static_cast<int>(path.losses.size()) == training_.iterations; }

  server::VectorMember member;
  LbfgsPath path;
  std::vector<std::string> failures;  // of iterations
  std::int64_t computed = 0;          // portions
  // Bytes that the coordinator has sent in each iteration, frames included: to servers, and in all.
  std::vector<std::size_t> command_bytes = {0}, coordinator_bytes = {0};
  std::vector<std::int64_t> evaluations = {0};

 private:
  machine::Actions work(server::VectorMember::Work what, machine::Time now) {
    member.do_work(std::move(what));
    return member.on_message(own_, {.kind = server::VectorMember::kWork}, now);
  }

  machine::Actions start() {
    if (own_ != shape_.coordinator()) return {};
    return work([&](auto& worker) { return worker.store(std::as_bytes(std::span(first))); }, {});
  }

  machine::Actions go_on(machine::Actions actions, machine::Time now) {
    if (!is_in_) {
      if (is_done() || !member.look([](auto& worker) { return worker.is_stored(); }))
        return actions;
      is_in_ = true;
      append(actions, work([](auto& worker) { return worker.enter(); }, now));
    }
    if (computes_) return actions;
    if (member.look([](auto& worker) { return worker.is_over(); })) {
      leave();
      return go_on(std::move(actions), now);
    }
    if (member.look([](auto& worker) { return worker.has_portion(); })) compute(actions, now);
    return actions;
  }

  Vector values() {
    Vector values(shape_.elements);
    member.look([&](auto& worker) {
      std::memcpy(values.data(), worker.values().data(), worker.values().size());
    });
    return values;
  }

  void leave() {
    const auto end = member.look([](auto& worker) { return worker.leave(); });
    path.parameters.push_back(values());
    path.losses.push_back(end.loss);
    failures.push_back(end.failure);
    is_in_ = false;
  }

  void compute(machine::Actions& actions, machine::Time now) {
    const auto portion = member.look([](auto& worker) { return worker.take_portion(); });
    const auto number = static_cast<std::int64_t>(portion.number);
    sums_ = training_.sums(values(), shape_.begin_of(number), shape_.end_of(number));
    computes_ = true;
    actions.push_back(machine::Arm{1, now + training_.computes(own_, number)});
  }

  machine::Actions counted(machine::Actions actions) {
    if (own_ != shape_.coordinator()) return actions;
    for (const machine::Action& action : actions) {
      const auto* const send = std::get_if<machine::Send>(&action);
      if (send == nullptr || send->to == own_) continue;
      const auto kind = static_cast<server::VectorKind>(send->message.kind);
      const std::size_t bytes = transport::kFrameHeaderBytes + send->message.payload.size();
      if (kind == server::VectorKind::carry_out) command_bytes.back() += bytes;
      if (kind <= server::VectorKind::over) coordinator_bytes.back() += bytes;
    }
    const auto& leader = *member.coordinator();
    evaluations.back() = leader.evaluations();
    if (static_cast<std::size_t>(leader.iterations()) < coordinator_bytes.size()) return actions;
    command_bytes.push_back(0);
    coordinator_bytes.push_back(0);
    evaluations.push_back(leader.evaluations());
    return actions;
  }

 public:
  Vector first;  // parameters

 private:
  const server::VectorShape& shape_;
  const int own_;
  const PortionTraining& training_;
  bool is_in_ = false, computes_ = false;
  LossAndGradient sums_;
};

// Workers 0, 1, ... and the servers after them. `through` may put another machine in the place of a
// member's own.
struct VirtualLbfgs {
  using Through = std::function<machine::Machine&(int member, machine::Machine& own)>;

  server::VectorShape shape;
  machine::VirtualNetwork network;
  std::map<int, std::unique_ptr<LbfgsWorker>> workers;
  std::map<int, std::unique_ptr<server::VectorServer>> servers;
  std::set<int> dead;

  VirtualLbfgs(
      server::VectorShape of, int worker_count, int server_count, const Vector& first,
      const PortionTraining& training, std::uint64_t seed,
      const machine::NetworkFaults& weather = {.overtaking = true},
      const Through& through = [](int, machine::Machine& own) -> machine::Machine& { return own; })
      : shape(std::move(of)), network(seed, weather) {
    shape.members = server::TableMembers::of_servers(worker_count, server_count);
    for (const int member : shape.members.servers) {
      servers[member] = std::make_unique<server::VectorServer>(shape, member);
      network.add(member, through(member, *servers[member]));
    }
    for (const int member : shape.members.workers) {
      workers[member] = std::make_unique<LbfgsWorker>(shape, member, training);
      workers[member]->first = first;
      network.add(member, through(member, *workers[member]));
      network.tell(member, -1, {.kind = LbfgsWorker::kStart});
    }
  }

  void kill(int worker, machine::Time at) {
    dead.insert(worker);
    network.kill(worker, at);
  }
  // Returns whether all workers that live have come to their ends.
  bool run() {
    network.run();
    return std::ranges::all_of(workers, [&](const auto& one) {
      return dead.contains(one.first) || one.second->is_done();
    });
  }
  LbfgsWorker& leader() { return *workers.begin()->second; }
};

}  // namespace paceline::test
