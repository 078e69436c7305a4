// Protocols that look right and are wrong: each is caught by the laws that the true one keeps
// beside it, under the same seeds. A wrong protocol is made by a machine that stands between a
// member and the network and changes what they say to each other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/core/server/machine/ssp_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

using server::Packet;
using server::PacketKind;

// Stands before a member's machine. `hear` may change what comes to it, `say` what it sends; the
// packet is swallowed where they return false.
class Meddler final : public machine::Machine {
 public:
  using Change = std::function<bool(int peer, Packet&)>;
  Meddler(machine::Machine& inside, server::PacketLimits limits)
      : inside_(inside), limits_(limits) {}
  Change hear = [](int, Packet&) { return true; };
  Change say = [](int, Packet&) { return true; };
  std::vector<std::pair<int, Packet>> extra;  // packets that it hears after the event

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override {
    auto packet = server::parse_packet(message, limits_);
    if (!packet) return said(inside_.on_message(from, message, now), now);
    if (!hear(from, *packet)) return {};
    return said(inside_.on_message(from, server::encode(*packet), now), now);
  }
  machine::Actions on_timer(std::uint32_t timer, machine::Time now) override {
    return said(inside_.on_timer(timer, now), now);
  }
  machine::Actions on_lost(int peer, machine::Time now) override {
    return said(inside_.on_lost(peer, now), now);
  }

 private:
  machine::Actions said(machine::Actions actions, machine::Time now) {
    machine::Actions kept;
    for (machine::Action& action : actions) {
      auto* const send = std::get_if<machine::Send>(&action);
      if (send == nullptr) {
        kept.push_back(std::move(action));
        continue;
      }
      auto packet = server::parse_packet(send->message, limits_);
      if (!packet || !say(send->to, *packet)) continue;
      kept.push_back(machine::Send{send->to, server::encode(*packet)});
    }
    for (const auto& [from, packet] : std::exchange(extra, {})) {
      const machine::Actions more =
          said(inside_.on_message(from, server::encode(packet), now), now);
      kept.insert(kept.end(), more.begin(), more.end());
    }
    return kept;
  }

  machine::Machine& inside_;
  const server::PacketLimits limits_;
};

constexpr server::PacketLimits kTwoRanges = {2, sizeof(double)};
using Mutation = void (*)(Meddler&, int member);

// The server takes whatever is above the highest number seen, and answers with that.
void take_highest_number(Meddler& meddler, int member) {
  if (member < SspWorld::kWorkers || member >= SspWorld::kNewcomers) return;
  struct MixedPrecision {
    std::uint64_t highest = 0, taken = 0;
  };
  const auto numbers = std::make_shared<std::map<std::pair<int, std::uint32_t>, MixedPrecision>>();
  meddler.hear = [numbers](int from, Packet& packet) {
    if (packet.kind != PacketKind::push) return true;
    MixedPrecision& of = (*numbers)[{from, packet.range}];
    const bool is_new = packet.sequence > of.highest;
    of.highest = std::max(of.highest, packet.sequence);
    packet.sequence = is_new ? ++of.taken : of.taken;
    return true;
  };
  meddler.say = [numbers](int to, Packet& packet) {
    if (packet.kind != PacketKind::answer && packet.kind != PacketKind::row) return true;
    packet.sequence = (*numbers)[{to, packet.range}].highest;
    return true;
  };
}

// The server takes repeats for new pushes.
void take_repeats(Meddler& meddler, int member) {
  if (member < SspWorld::kWorkers || member >= SspWorld::kNewcomers) return;
  struct MixedPrecision {
    std::uint64_t highest = 0, taken = 0;
  };
  const auto numbers = std::make_shared<std::map<std::pair<int, std::uint32_t>, MixedPrecision>>();
  meddler.hear = [numbers](int from, Packet& packet) {
    if (packet.kind != PacketKind::push) return true;
    MixedPrecision& of = (*numbers)[{from, packet.range}];
    const std::uint64_t repeats = of.taken - of.highest;
    if (packet.sequence > of.highest + 1) return false;  // it will be sent again, in order
    of.highest = std::max(of.highest, packet.sequence);
    packet.sequence = std::max(of.taken, of.highest - 1 + repeats) + 1;
    of.taken = packet.sequence;
    packet.clock = static_cast<std::int64_t>(packet.sequence) - 1;
    return true;
  };
  meddler.say = [numbers](int to, Packet& packet) {
    if (packet.kind != PacketKind::answer && packet.kind != PacketKind::row) return true;
    packet.sequence = (*numbers)[{to, packet.range}].highest;
    return true;
  };
}

// The worker believes that rows hold exactly what was answered, instead of what they say.
void trust_answers(Meddler& meddler, int member) {
  if (member >= SspWorld::kWorkers) return;
  const auto answered = std::make_shared<std::map<std::uint32_t, std::uint64_t>>();
  meddler.hear = [answered](int, Packet& packet) {
    std::uint64_t& highest = (*answered)[packet.range];
    if (packet.kind == PacketKind::answer) highest = std::max(highest, packet.sequence);
    if (packet.kind == PacketKind::row) packet.sequence = highest;
    return true;
  };
}

// The newcomer begins without telling the ranges where it goes on.
void join_in_one_step(Meddler& meddler, int member) {
  if (member < SspWorld::kNewcomers) return;
  meddler.say = [&meddler, member](int to, Packet& packet) {
    if (packet.kind != PacketKind::join || packet.clock == server::kAnyClock) return true;
    meddler.extra.emplace_back(to, Packet{.kind = PacketKind::answer,
                                          .range = packet.range,
                                          .clock = packet.clock,
                                          .count = static_cast<std::uint64_t>(packet.clock)});
    return false;
  };
}

constexpr machine::NetworkFaults kWorseWeather = {
    .least_delay = 1ms, .most_delay = 10ms, .loss = 0.2, .duplication = 0.2, .overtaking = true};

struct BrokenWorlds {
  int stuck = 0, missing = 0, twice = 0;  // by the law that is broken first
  int all() const { return stuck + missing + twice; }
};

// The laws that are broken in so many worlds.
BrokenWorlds broken_worlds(Mutation mutation, std::optional<std::int64_t> staleness,
                           int newcomers) {
  BrokenWorlds broken;
  for (int number = 0; number < (is_brief() ? 20 : 240); ++number) {
    std::vector<std::unique_ptr<Meddler>> meddlers;
    const auto through = [&](int member, machine::Machine& own) -> machine::Machine& {
      meddlers.push_back(std::make_unique<Meddler>(own, kTwoRanges));
      if (mutation != nullptr) mutation(*meddlers.back(), member);
      return *meddlers.back();
    };
    SspWorld world(staleness, seed(2770000 + static_cast<std::uint64_t>(number)), "", 10,
                   kWorseWeather, through);
    if (newcomers > 0) world.churn(newcomers);
    if (!world.table.run(10s)) {
      ++broken.stuck;
    } else if (const std::string why = world.complaint(); !why.empty()) {
      ++(why.find("misses") != std::string::npos || why.ends_with("0 times") ? broken.missing
                                                                             : broken.twice);
    }
  }
  return broken;
}

// Rare worlds show a mutation; the few that sanitizers run need not.
void expect_seen_in_more_than(int least, int worlds) {
  EXPECT_TRUE(is_brief() || worlds > least) << worlds << " worlds";
}

TEST(Mutants, TheHighestNumberInsteadOfTheOrderLosesPushes) {
  EXPECT_EQ(broken_worlds(nullptr, {}, 0).all(), 0) << "the control";
  expect_seen_in_more_than(10, broken_worlds(take_highest_number, {}, 0).missing);
}

TEST(Mutants, RepeatsThatAreTakenCountTwice) {
  expect_seen_in_more_than(10, broken_worlds(take_repeats, {}, 0).twice);
}

TEST(Mutants, DifferencesDroppedAtTheAnswerAreMissingOrCountTwice) {
  EXPECT_EQ(broken_worlds(nullptr, 2, 0).all(), 0) << "the control";
  const BrokenWorlds broken = broken_worlds(trust_answers, 2, 0);
  expect_seen_in_more_than(2, broken.twice);
  expect_seen_in_more_than(2, broken.missing);
}

TEST(Mutants, ANewcomerWithoutTheSecondStepWaitsForItself) {
  EXPECT_EQ(broken_worlds(nullptr, 0, 2).all(), 0) << "the control";
  expect_seen_in_more_than(2, broken_worlds(join_in_one_step, 0, 2).stuck);
}

}  // namespace
}  // namespace paceline::test
