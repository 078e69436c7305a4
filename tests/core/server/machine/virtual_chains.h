// Servers in virtual time whose ranges are kept by chains of them: servers that are killed before or
// inside any event, a controller that hears of it late, and new servers that come in their place.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/machine/virtual_network.h"
#include "paceline/core/server/control/controller.h"
#include "paceline/core/server/machine/table_machine.h"
#include "paceline/core/server/sparse/sparse_machine.h"

namespace paceline::test {

// The member number of the controller in the network; servers that come late have the numbers from
// kLateServers on.
inline constexpr int kController = 10'000, kLateServers = 1'000;

// A server of a table with its line to the controller.
template <typename Shape, typename Table>
class ChainServerOf final : public machine::Machine {
 public:
  // Told from outside; index: a worker that is lost.
  enum Kind : std::uint32_t { kStart = 1000, kWorkerLost };

  ChainServerOf(const Shape& shape, int number, machine::Time resend_after)
      : table(shape, number, {.resend_after = resend_after}),
        member_(number),
        resend_after_(resend_after) {}

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override {
    if (has_ended_table) return {};
    if (message.kind == kStart && from < 0) {
      machine::Actions actions = table.start_server(now);
      actions.emplace_back(machine::Arm{kTick, now + resend_after_});
      return actions;
    }
    if (message.kind == kWorkerLost && from < 0)
      return done(table.on_lost(static_cast<int>(message.index), now), now);
    if (from == kController)
      return done(
          table.on_message(member_, {.kind = Table::kChains, .payload = message.payload}, now),
          now);
    machine::Message heard = message;
    machine::Actions actions = hear(from, heard);
    append(actions, table.on_message(from, heard, now));
    return done(std::move(actions), now);
  }
  machine::Actions on_timer(std::uint32_t timer, machine::Time now) override {
    if (has_ended_table) return {};
    if (timer != kTick) return done(table.on_timer(timer, now), now);
    told_.clear();
    machine::Actions actions = done({}, now);
    actions.emplace_back(machine::Arm{kTick, now + resend_after_});
    return actions;
  }
  machine::Actions on_lost(int peer, machine::Time now) override {
    return done(table.on_lost(peer, now), now);
  }

  // At this event it carries out so many actions and ends; none: it ends before the event.
  struct End {
    std::size_t event = 0;
    std::optional<std::size_t> actions = {};
  };
  std::optional<End> end;
  std::size_t events = 0;
  bool has_ended = false;
  std::function<void()> observe = [] {};  // called after each event
  // Whether it gives up the table when nobody needs it, as serve() does.
  bool ends_table = false, has_ended_table = false;
  // A wrong protocol may change what this server hears, answer in its place, or hear more.
  std::function<machine::Actions(int from, machine::Message&)> hear = [](int, machine::Message&) {
    return machine::Actions{};
  };
  std::function<machine::Actions(const machine::Actions&, machine::Time)> say =
      [](const machine::Actions&, machine::Time) { return machine::Actions{}; };
  Table table;
  int member() const { return member_; }
  const auto* range(std::uint32_t number) const {
    const auto& parts = std::as_const(table).parts();
    const auto found = parts.find(number);
    return found == parts.end() ? nullptr : &found->second;
  }

 private:
  static constexpr std::uint32_t kTick = 2'000'000;

  machine::Actions done(machine::Actions actions, machine::Time now) {
    if (has_ended) return {};
    has_ended_table |= ends_table && table.is_over();
    append(actions, say(actions, now));
    observe();
    for (const server::ChainReport& report : table.reports()) {
      auto& told = told_[report.chain];
      if (told == report) continue;
      told = report;
      actions.emplace_back(machine::Send{kController, encode(report)});
    }
    if (end && ++events == end->event) {
      has_ended = true;
      actions.resize(std::min(actions.size(), end->actions.value_or(0)));
    }
    return actions;
  }

  const int member_;
  const machine::Time resend_after_;
  std::map<std::uint32_t, std::optional<server::ChainReport>> told_;
};

using ChainServer = ChainServerOf<server::TableShape, server::TableMachine>;

// The controller, and what it is told from outside.
class VirtualController final : public machine::Machine {
 public:
  // Told from outside; index: the server, the chain, the worker.
  enum Kind : std::uint32_t { kStart = 1000, kDied, kReplaced, kCame, kMove, kWorkerCame };

  template <typename Shape>
  VirtualController(const Shape& shape, machine::Time say_again_after)
      : controller(shape.chains(), shape.spec.replicas, shape.members.all(),
                   {shape.members.servers.begin(), shape.members.servers.end()}, say_again_after) {}

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override {
    const auto number = static_cast<int>(message.index);
    if (from >= 0) return controller.on_message(from, message, now);
    switch (message.kind) {
      case kStart: return controller.start(now);
      case kDied: return controller.died(number);
      case kReplaced: return controller.died(number, true);
      case kCame: return controller.came(number);
      case kWorkerCame: return controller.welcome(number);
      case kMove: {
        const auto& servers = controller.chains()[message.index].servers;
        return servers.empty() ? machine::Actions{}
                               : controller.move(message.index, servers.front());
      }
      default: return {};
    }
  }
  machine::Actions on_timer(std::uint32_t timer, machine::Time now) override {
    return controller.on_timer(timer, now);
  }
  machine::Actions on_lost(int peer, machine::Time now) override {
    return controller.on_lost(peer, now);
  }

  server::Controller controller;
};

// All servers of a table, their controller and what befalls them, and the laws that they keep after
// every event.
template <typename Shape, typename Table>
class VirtualChainsOf {
 public:
  using Server = ChainServerOf<Shape, Table>;
  using Meddle = std::function<void(Server&)>;

  VirtualChainsOf(machine::VirtualNetwork& network, const Shape& shape, machine::Time resend_after)
      : network_(network),
        shape_(shape),
        resend_after_(resend_after),
        control_(shape, 2 * resend_after) {
    network_.add(kController, control_);
    network_.tell(kController, -1, {.kind = VirtualController::kStart});
    for (const int member : shape.members.servers) add(member);
  }

  const server::Controller& controller() const { return control_.controller; }
  Server& server(int member) { return *servers_.at(member); }
  const std::map<int, std::unique_ptr<Server>>& servers() const { return servers_; }
  // The range on the last server that is ready: workers are shown no other. One that has just been
  // cut in may lack what was committed before.
  const auto& tail(std::size_t range) const {
    const auto& servers = controller().chains()[shape_.chain_of(range)].servers;
    const auto on = [&](int server) -> const auto& {
      return servers_.at(server)->table.parts().at(static_cast<std::uint32_t>(range));
    };
    for (auto server = servers.rbegin(); server != servers.rend(); ++server)
      if (on(*server).chain().is_ready()) return on(*server);
    return on(servers.front());
  }
  bool is_alive(int member) const { return servers_.contains(member) && !dead_.contains(member); }
  // Those whose loss each chain survives.
  std::vector<int> expendable() const {
    std::vector<int> all;
    for (const auto& [member, server] : servers_)
      if (is_alive(member) && controller_believes_in(member) && is_safe_to_lose(member))
        all.push_back(member);
    return all;
  }

  void at(machine::Time when, std::function<void()> what) { due_.emplace(when, std::move(what)); }
  void kill(int member) {
    if (!dead_.insert(member).second) return;
    ++kills;
    network_.kill(member, network_.now());
    // Every other time the chains wait for the server that comes in its place.
    tell_soon(std::chrono::milliseconds(30),
              kills % 2 == 0 ? VirtualController::kReplaced : VirtualController::kDied, member);
    come_soon(std::chrono::milliseconds(120));
  }
  // It is held to be dead, and works on with the chains that it knows until it is stopped. Without
  // leases it may give rows that are older than what others have seen.
  void suspect(int member) {
    ++suspicions;
    suspected_.insert(member);
    if (has_leases) server(member).table.ask_before_answers([](machine::Time) { return false; });
    network_.tell(kController, -1,
                  {.kind = VirtualController::kDied, .index = static_cast<std::uint32_t>(member)});
    at(network_.now() + std::chrono::milliseconds(150), [this, member] {
      dead_.insert(member);
      network_.kill(member, network_.now());
      come_soon(std::chrono::milliseconds(50));
    });
  }
  void move(std::size_t chain) {
    network_.tell(kController, -1,
                  {.kind = VirtualController::kMove, .index = static_cast<std::uint32_t>(chain)});
  }
  void worker_came(int member) {
    network_.tell(
        kController, -1,
        {.kind = VirtualController::kWorkerCame, .index = static_cast<std::uint32_t>(member)});
  }
  // From now on servers give up the table when nobody needs it any more.
  void end_table() {
    meddle_with_all([](Server& one) { one.ends_table = true; });
  }
  void worker_lost(int member) { lost_workers_.insert(member); }

  // Runs the network to this time, in steps in which what is due happens.
  void run(machine::Time until) {
    const std::chrono::milliseconds step(1);
    machine::Time at = network_.now();
    do {
      at = std::min<machine::Time>(at + step, until);
      network_.run(at);
      while (!due_.empty() && due_.begin()->first <= at) due_.extract(due_.begin()).mapped()();
      for (const auto& [member, server] : servers_)
        if (server->has_ended && !dead_.contains(member)) return_of_ended_.push_back(member);
      for (const int member : std::exchange(return_of_ended_, {})) kill(member);
      tell_lost_workers(at);
    } while (at < until);
  }

  // Makes the protocol of all servers wrong, also of those that come late.
  void meddle_with_all(Meddle with) {
    meddle_ = std::move(with);
    for (const auto& [member, server] : servers_) meddle_(*server);
  }

  // The first law that was broken; empty: none.
  std::string complaint;
  std::size_t compared = 0;  // states of one server with those of the server before it
  int kills = 0, suspicions = 0;
  std::size_t most_logged = 0;
  bool has_leases = false;  // that of a server ends before it is held to be dead

 private:
  void add(int member) {
    auto& server = servers_[member];
    server = std::make_unique<Server>(shape_, member, resend_after_);
    server->observe = [this, member] { observe(member); };
    if (meddle_) meddle_(*server);
    network_.add(member, *server);
    network_.tell(member, -1, {.kind = Server::kStart});
  }
  void tell_soon(machine::Time after, std::uint32_t kind, int number) {
    at(network_.now() + after, [this, kind, number] {
      network_.tell(kController, -1, {.kind = kind, .index = static_cast<std::uint32_t>(number)});
    });
  }
  void come_soon(machine::Time after) {
    at(network_.now() + after, [this] {
      const int member = kLateServers + late_++;
      add(member);
      network_.tell(
          kController, -1,
          {.kind = VirtualController::kCame, .index = static_cast<std::uint32_t>(member)});
    });
  }
  bool controller_believes_in(int member) const {
    for (std::size_t i = 0; i < controller().chains().size(); ++i)
      if (controller().chains()[i].has(member) || controller().chains()[i].joiner == member)
        return true;
    return false;
  }
  // A chain keeps a server that is ready, alive and not about to leave.
  bool is_safe_to_lose(int member) const {
    if (!controller().may_lose(member)) return false;
    for (std::size_t i = 0; i < controller().chains().size(); ++i) {
      bool has_other = false;
      for (const int other : controller().ready(i))
        has_other |= other != member && is_alive(other) && !suspected_.contains(other) &&
                     !controller().is_leaving(i, other) && !servers_.at(other)->end;
      if (!has_other) return false;
    }
    return true;
  }
  void tell_lost_workers(machine::Time at) {
    if (lost_workers_.empty() || at < told_lost_ + std::chrono::milliseconds(50)) return;
    told_lost_ = at;
    for (const auto& [member, server] : servers_)
      for (const int worker : lost_workers_)
        network_.tell(member, -1,
                      {.kind = Server::kWorkerLost, .index = static_cast<std::uint32_t>(worker)});
  }

  // The entries of a server are the beginning of those of the one before it.
  void observe(int member) {
    for (const auto& [number, range] : servers_.at(member)->table.parts()) {
      const auto& chain = range.chain();
      most_logged = std::max(most_logged, chain.logged());
      if (!chain.has_state()) continue;
      const std::uint64_t top = chain.state().top();
      transport::WireWriter writer;
      chain.state().write(writer);
      const std::uint64_t sum = hash(writer.bytes());
      auto& own = history_[{member, number}];
      own.erase(own.upper_bound(top), own.end());
      own[top] = sum;
      const auto before = chain.chain().before(member);
      if (!before || !servers_.contains(*before)) continue;
      const auto& ranges = servers_.at(*before)->table.parts();
      const auto found = ranges.find(number);
      if (found == ranges.end() ||
          found->second.chain().chain().generation != chain.chain().generation)
        continue;
      const auto& above = history_[{*before, number}];
      if (found->second.chain().state().top() < top)
        note(fmt::format("server {} has {} entries of range {}, and server {} before it {}", member,
                         top, number, *before, found->second.chain().state().top()));
      const auto same = above.find(top);
      if (same == above.end()) continue;
      ++compared;
      if (same->second != sum)
        note(fmt::format("servers {} and {} differ after entry {} of range {}", *before, member,
                         top, number));
    }
  }
  void note(const std::string& what) {
    if (complaint.empty()) complaint = what;
  }
  static std::uint64_t hash(Bytes bytes) {
    std::uint64_t sum = bytes.size();
    for (; bytes.size() >= sizeof sum; bytes = bytes.subspan(sizeof sum)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), sizeof word);
      sum = mix(sum, word);
    }
    for (const std::byte one : bytes) sum = mix(sum, static_cast<std::uint64_t>(one));
    return sum;
  }

  Meddle meddle_;
  machine::VirtualNetwork& network_;
  const Shape& shape_;
  const machine::Time resend_after_;
  VirtualController control_;
  std::map<int, std::unique_ptr<Server>> servers_;  // also those that have ended
  std::set<int> dead_, suspected_;
  int late_ = 0;
  std::multimap<machine::Time, std::function<void()>> due_;
  std::vector<int> return_of_ended_;
  std::set<int> lost_workers_;
  machine::Time told_lost_ = {};
  std::map<std::pair<int, std::uint32_t>, std::map<std::uint64_t, std::uint64_t>> history_;
};

using VirtualChains = VirtualChainsOf<server::TableShape, server::TableMachine>;

// How much befalls the servers of a world, at random moments.
struct ChainTroubles {
  int kills = 0, moves = 0, suspicions = 0;
};

template <typename Chains>
void plan_troubles_of(Chains& chains, SeededNumbers& numbers, const ChainTroubles& troubles) {
  const auto moment = [&] {
    return machine::Time(static_cast<machine::Time::rep>((20 + 380 * numbers.unit()) * 1e6));
  };
  const auto drawn = [](const std::vector<int>& all, std::uint64_t number) {
    return all[number % all.size()];
  };
  for (int i = 0; i < troubles.kills; ++i)
    chains.at(moment(), [&chains, drawn, number = numbers.next()] {
      if (const auto all = chains.expendable(); !all.empty()) chains.kill(drawn(all, number));
    });
  for (int i = 0; i < troubles.suspicions; ++i)
    chains.at(moment(), [&chains, drawn, number = numbers.next()] {
      if (const auto all = chains.expendable(); !all.empty()) chains.suspect(drawn(all, number));
    });
  for (int i = 0; i < troubles.moves; ++i)
    chains.at(moment(), [&chains, number = numbers.next()] {
      chains.move(number % chains.controller().chains().size());
    });
}

// The first law of chains that is broken at the end of a world; empty: none.
template <typename Chains>
std::string complaint_of(const Chains& chains) {
  if (chains.controller().lost()) return "a chain is lost, though it had a server that was ready";
  return chains.complaint;
}

}  // namespace paceline::test
