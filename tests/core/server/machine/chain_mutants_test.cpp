// Chains that look right and are wrong: each is caught by the laws that the true one keeps beside
// it, under the same seeds.
#include <gtest/gtest.h>

#include <cstring>

#include "paceline/core/server/wire/chain_packet.h"
#include "tests/core/server/machine/chain_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

using machine::Actions;
using machine::Message;
using machine::Time;
using server::ChainKind;
using server::ChainPacket;
using server::Packet;
using server::PacketKind;

constexpr server::PacketLimits kManyRanges = {1'000, sizeof(double)};

std::optional<Packet> packet_of(const Message& message, PacketKind kind) {
  if (message.kind != static_cast<std::uint32_t>(kind)) return std::nullopt;
  auto packet = server::parse_packet(message, kManyRanges);
  return packet ? std::optional(*std::move(packet)) : std::nullopt;
}
std::optional<ChainPacket> chain_packet_of(const Message& message, ChainKind kind) {
  if (message.kind != static_cast<std::uint32_t>(kind)) return std::nullopt;
  auto packet = server::parse_chain_packet(message, kManyRanges.ranges);
  return packet ? std::optional(*std::move(packet)) : std::nullopt;
}

Message answer_to(std::uint32_t range, std::uint64_t sequence, std::int64_t clock) {
  return server::encode({.kind = PacketKind::answer,
                         .range = range,
                         .sequence = sequence,
                         .clock = clock,
                         .count = static_cast<std::uint64_t>(clock)});
}

// The first server answers what it has entered, before the others have it.
void answer_early(ChainServer& one) {
  one.say = [&one](const Actions&, Time) {
    Actions more;
    for (const auto& [number, range] : one.table.parts())
      for (const auto& [worker, member] : range.chain().state().members())
        if (range.chain().is_head() && member.decided > 0)
          more.emplace_back(
              machine::Send{worker, answer_to(number, member.decided, range.value().clock())});
    return more;
  };
}

// A new first server answers a repeat that its own entries hold, and not yet the others.
void answer_repeats_early(ChainServer& one) {
  one.hear = [&one](int from, Message& message) {
    const auto push = packet_of(message, PacketKind::push);
    const auto* const range = push ? one.range(push->range) : nullptr;
    if (range == nullptr || !range->chain().is_head() || !range->chain().state().has(from))
      return Actions{};
    const auto decided = range->chain().state().members().at(from).decided;
    if (push->sequence > decided) return Actions{};
    return Actions{machine::Send{from, answer_to(push->range, decided, range->value().clock())}};
  };
}

// A newcomer counts from the moment at which it has a snapshot.
void be_ready_at_once(ChainServer& one) {
  one.hear = [](int, Message& message) {
    if (auto forward = chain_packet_of(message, ChainKind::forward)) {
      forward->ready_at = 0;
      message = server::encode(*forward);
    }
    return Actions{};
  };
}

// The first server answers pulls by what it has entered.
void read_at_the_head(ChainServer& one) {
  one.say = [&one, next = std::uint32_t{0}](const Actions&, Time) mutable {
    Actions more;
    for (const auto& [number, range] : one.table.parts()) {
      if (!range.chain().is_head() || !range.chain().state().has_values()) continue;
      for (const auto& [worker, member] : range.chain().state().members()) {
        const auto view = range.value().view(server::kAnyLead);
        // The worker takes the row of the pull that it waits for.
        for (std::uint32_t pull = 1; pull < 24; ++pull)
          if (view.clock >= static_cast<std::int64_t>(pull) - 1)
            more.emplace_back(machine::Send{
                worker, server::encode({.kind = PacketKind::row,
                                        .range = number,
                                        .flags = pull,
                                        .sequence = range.value().own(worker),
                                        .clock = view.clock,
                                        .count = view.values.size() / sizeof(double),
                                        .facts = range.value().facts_for(worker, view),
                                        .elements = view.values})});
      }
    }
    return more;
  };
}

// Changes the state in each snapshot that a server hears.
void change_snapshots(
    ChainServer& one,
    const std::function<void(ChainServer&, std::uint32_t, std::vector<std::byte>&)>& change) {
  one.hear = [&one, change](int, Message& message) {
    if (auto snapshot = chain_packet_of(message, ChainKind::snapshot)) {
      std::vector<std::byte> state(snapshot->state.begin(), snapshot->state.end());
      change(one, snapshot->range, state);
      snapshot->state = state;
      message = server::encode(*snapshot);
    }
    return Actions{};
  };
}

// A snapshot without the state of the rule.
void forget_slots(ChainServer& one) {
  change_snapshots(one, [](ChainServer& at, std::uint32_t range, std::vector<std::byte>& state) {
    const auto* const machine = at.range(range);
    if (machine == nullptr) return;
    std::uint32_t members = 0, gone = 0;
    std::memcpy(&members, state.data() + 9, sizeof members);
    std::memcpy(&gone, state.data() + 13, sizeof gone);
    const std::size_t bytes = machine->value().view(server::kAnyLead).values.size();
    const std::size_t first = 21 + 33 * members + 4 * gone + bytes;
    std::fill_n(state.begin() + static_cast<std::ptrdiff_t>(first), 2 * bytes, std::byte{0});
  });
}

// A snapshot without the pushes that are not to be seen yet, which stand at its end.
void forget_held_pushes(ChainServer& one) {
  change_snapshots(one, [](ChainServer& at, std::uint32_t range, std::vector<std::byte>& state) {
    const auto* const machine = at.range(range);
    if (machine == nullptr) return;
    const std::size_t bytes = machine->value().view(server::kAnyLead).values.size();
    const std::size_t push = server::kEntryHeader + server::kPushBytes + bytes;
    for (std::uint64_t held = 1; held * push + sizeof held < state.size(); ++held) {
      std::uint64_t told = 0;
      const std::size_t place = state.size() - held * push - sizeof told;
      std::memcpy(&told, state.data() + place, sizeof told);
      if (told != held) continue;
      told = 0;
      std::memcpy(state.data() + place, &told, sizeof told);
      return state.resize(place + sizeof told);
    }
  });
}

std::string complaint_of_ssp(const VirtualChains::Meddle& meddle, std::uint64_t of_seed) {
  constexpr machine::NetworkFaults kWorse = {
      .least_delay = 1ms, .most_delay = 10ms, .loss = 0.2, .duplication = 0.2, .overtaking = true};
  ChainSspWorld world(2, of_seed, 4, 3, {.kills = 6, .moves = 4}, kWorse);
  if (meddle) world.table.chains->meddle_with_all(meddle);
  return world.run();
}

std::string complaint_of_bsp(const VirtualChains::Meddle& meddle, std::uint64_t of_seed) {
  QuadraticWorld calm("bsp", "adam:rate=0.05", Dtype::f64, 3, 3, of_seed, {}, 8);
  QuadraticWorld world("bsp", "adam:rate=0.05", Dtype::f64, 3, 3, of_seed, kBadWeather, 8, 2);
  if (meddle) world.table.chains->meddle_with_all(meddle);
  SeededNumbers numbers(of_seed);
  plan_troubles(world.table, numbers, {.kills = 3, .moves = 2});
  if (!calm.table.run() || !world.table.run(20s)) return "no progress";
  if (std::string why = complaint_of_chains(world.table); !why.empty()) return why;
  return world.table.held() == calm.table.held() ? "" : "other bits than without faults";
}

using Complaint = std::string (*)(const VirtualChains::Meddle&, std::uint64_t seed);
constexpr int kMostWorlds = 2'000;

// How many worlds it takes until one breaks a law. The true protocol keeps all of them beside it.
int worlds_until_caught(Complaint complaint, const VirtualChains::Meddle& meddle) {
  for (int number = 0; number < kMostWorlds; ++number) {
    const std::uint64_t of_seed = seed(3500000 + static_cast<std::uint64_t>(number));
    EXPECT_EQ(complaint({}, of_seed), "") << "the control, seed " << number;
    if (!complaint(meddle, of_seed).empty()) return number + 1;
    if (is_brief() && number > 5) return 1;  // sanitizers run a few
  }
  return kMostWorlds + 1;
}

struct Mutant {
  const char* name;
  Complaint complaint;
  void (*meddle)(ChainServer&);
};

class ChainMutants : public ::testing::TestWithParam<Mutant> {};

TEST_P(ChainMutants, AreCaughtBesideTheTrueProtocol) {
  const int worlds = worlds_until_caught(GetParam().complaint, GetParam().meddle);
  EXPECT_LE(worlds, kMostWorlds) << GetParam().name;
  RecordProperty("worlds", worlds);
  std::cout << GetParam().name << ": " << worlds << " worlds\n";
}

INSTANTIATE_TEST_SUITE_P(
    All, ChainMutants,
    ::testing::Values(Mutant{"AnswersEarly", complaint_of_ssp, answer_early},
                      Mutant{"AnswersRepeatsEarly", complaint_of_ssp, answer_repeats_early},
                      Mutant{"CountsAnUnreadyNewcomer", complaint_of_ssp, be_ready_at_once},
                      Mutant{"ReadsAtTheHead", complaint_of_ssp, read_at_the_head},
                      Mutant{"ForgetsTheSlotsOfTheRule", complaint_of_bsp, forget_slots},
                      Mutant{"ForgetsPushesThatAreHeld", complaint_of_ssp, forget_held_pushes}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace paceline::test
