// Chains of shares that look right and are wrong: each is caught by the laws that the true one keeps
// beside it, under the same seeds.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/core/server/sparse/sparse_chain_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

using server::ShareChainPacket;
using server::ShareChange;
using server::SparseKind;

std::optional<ShareChainPacket> share_packet_of(const machine::Message& message,
                                                server::ChainKind kind) {
  if (message.kind != static_cast<std::uint32_t>(kind)) return std::nullopt;
  auto packet = server::parse_chain_packet<ShareChange>(message, 1'000);
  return packet ? std::optional(*std::move(packet)) : std::nullopt;
}

// The first server answers what it has entered, before the others have it.
void answer_pushes_early(SparseServer& one) {
  one.say = [&one](const machine::Actions&, machine::Time) {
    machine::Actions more;
    for (const auto& [number, share] : one.table.parts())
      for (const auto& [worker, member] : share.chain().state().members())
        if (share.chain().is_head() && member.decided > 0)
          more.emplace_back(machine::Send{
              worker, server::encode(
                          {.kind = SparseKind::taken, .share = number, .number = member.decided})});
    return more;
  };
}

// A worker rests though a push of its own is in an open step, which the first server alone has.
void rest_before_pushes_are_decided(SparseServer& one) {
  one.hear = [](int, machine::Message& message) {
    constexpr std::size_t kSequence = 16;  // pushes that come before the rest
    if (message.kind == static_cast<std::uint32_t>(SparseKind::rest))
      std::memset(message.payload.data() + kSequence, 0, sizeof(std::uint64_t));
    return machine::Actions{};
  };
}

// A snapshot has these at the places: the number of pushes that are to be shown, these, the arcs,
// and those of counted ids.
struct SnapshotPlaces {
  std::size_t waiting_count = 0, waiting = 0, arcs = 0, counts = 0;
  std::uint32_t rule_steps = 0;
};
SnapshotPlaces places_in(const std::vector<std::byte>& state, const server::ShareValue& value,
                         const server::SparseShape& shape) {
  const auto number_at = [&](std::size_t place) {
    std::uint32_t number = 0;
    std::memcpy(&number, state.data() + place, sizeof number);
    return std::size_t{number};
  };
  const std::size_t counts = 12 + 44 * number_at(8) + 16;
  SnapshotPlaces places{.waiting_count = counts + 12};
  places.waiting =
      counts + 16 + 12 * number_at(counts) + 12 * number_at(counts + 4) + 4 * number_at(counts + 8);
  const std::size_t row_bytes = shape.value_bytes() + shape.state_bytes();
  const std::size_t swept = shape.evicts() ? 28 : 0, counted = shape.evicts() ? 16 : 12;
  places.counts =
      state.size() - swept -
      (shape.counts_pushes() ? server::kArcsPerServer * 8 + value.counted() * counted : 0);
  places.arcs = places.counts - server::kArcsPerServer * 8 - value.rows() * (8 + row_bytes);
  places.rule_steps = static_cast<std::uint32_t>(value.rule_steps());
  return places;
}

using ChangeState = void (*)(std::vector<std::byte>&, const SnapshotPlaces&,
                             const server::SparseShape&);

// Changes the state in each snapshot that a server hears.
void change_share_snapshots(SparseServer& one, const server::SparseShape& shape,
                            ChangeState change) {
  one.hear = [&shape, change](int, machine::Message& message) {
    auto snapshot = share_packet_of(message, server::ChainKind::snapshot);
    if (!snapshot) return machine::Actions{};
    std::vector<std::byte> bytes(snapshot->state.begin(), snapshot->state.end());
    server::ShareState state(shape, snapshot->range);
    transport::WireReader reader(bytes);
    if (!state.read(reader)) return machine::Actions{};
    change(bytes, places_in(bytes, state.value(), shape), shape);
    snapshot->state = bytes;
    message = server::encode(*snapshot);
    return machine::Actions{};
  };
}

// Calls body(row) for each of the arcs at this place, whose rows have so many bytes.
template <typename Body>
void for_each_row(std::vector<std::byte>& bytes, std::size_t at, std::size_t row_bytes,
                  const Body& body) {
  for (int arc = 0; arc < server::kArcsPerServer; ++arc) {
    std::uint64_t rows = 0;
    std::memcpy(&rows, bytes.data() + at, sizeof rows);
    at += sizeof rows;
    for (; rows > 0; --rows, at += 8 + row_bytes) body(bytes.data() + at + 8);
  }
}

void forget_state_of_rule(std::vector<std::byte>& bytes, const SnapshotPlaces& places,
                          const server::SparseShape& shape) {
  for_each_row(bytes, places.arcs, shape.value_bytes() + shape.state_bytes(), [&](std::byte* row) {
    std::memset(row + shape.value_bytes(), 0, shape.state_bytes());
  });
}

void make_rows_young(std::vector<std::byte>& bytes, const SnapshotPlaces& places,
                     const server::SparseShape& shape) {
  const std::size_t row_bytes = shape.value_bytes() + shape.state_bytes();
  for_each_row(bytes, places.arcs, row_bytes, [&](std::byte* row) {
    std::memcpy(row + row_bytes - shape.stamp_bytes(), &places.rule_steps, 4);
  });
}

void forget_counts(std::vector<std::byte>& bytes, const SnapshotPlaces& places,
                   const server::SparseShape&) {
  const std::uint32_t one = 1;
  for_each_row(bytes, places.counts, 8,
               [&](std::byte* counted) { std::memcpy(counted, &one, sizeof one); });
}

void forget_waiting_pushes(std::vector<std::byte>& bytes, const SnapshotPlaces& places,
                           const server::SparseShape&) {
  std::memset(bytes.data() + places.waiting_count, 0, 4);
  bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(places.waiting),
              bytes.begin() + static_cast<std::ptrdiff_t>(places.arcs));
}

constexpr ChainTroubles kManyTroubles = {.kills = 6, .moves = 4};
constexpr machine::NetworkFaults kSparseStorm = {.least_delay = std::chrono::milliseconds(1),
                                                 .most_delay = std::chrono::milliseconds(10),
                                                 .loss = 0.2,
                                                 .duplication = 0.2,
                                                 .overtaking = true};

using MeddleWithShares = void (*)(SparseServer&, const server::SparseShape&);

std::string complaint_of_counting(MeddleWithShares meddle, std::uint64_t of_seed) {
  const SparseWork work{
      .seed = of_seed, .workers = 4, .steps = 10, .has_equal_weights = true, .counts = true};
  SparseChainWorld world(SparseChainWorld::counting(work, "ssp:staleness=2"), 3, work, kSparseStorm,
                         false, 4);
  if (meddle != nullptr)
    world.chains.meddle_with_all([&](SparseServer& one) { meddle(one, world.shape); });
  SeededNumbers numbers(of_seed);
  plan_troubles_of(world.chains, numbers, kManyTroubles);
  return world.run();
}

std::string complaint_of_bits_in(const machine::NetworkFaults& weather,
                                 const ChainTroubles& troubles, MeddleWithShares meddle,
                                 std::uint64_t of_seed) {
  const SparseWork work{.seed = of_seed, .steps = 10};
  SparseChainWorld world({.name = "u", .width = work.width, .rule = "adagrad:rate=0.1"}, 2, work,
                         weather);
  if (meddle != nullptr)
    world.chains.meddle_with_all([&](SparseServer& one) { meddle(one, world.shape); });
  SeededNumbers numbers(of_seed);
  plan_troubles_of(world.chains, numbers, troubles);
  if (std::string why = world.run(); !why.empty()) return why;
  return world.values<float>(0) == work.dense<float>(world.shape) ? ""
                                                                  : "other bits than in one loop";
}
std::string complaint_of_bits(MeddleWithShares meddle, std::uint64_t of_seed) {
  return complaint_of_bits_in(kSparseWeather, {.kills = 3, .moves = 2}, meddle, of_seed);
}
// Rows that are admitted late and evicted soon have the bits of one server.
std::string complaint_of_ages(MeddleWithShares meddle, std::uint64_t of_seed) {
  const SparseWork work{.seed = of_seed, .steps = 16};
  const server::SparseTableSpec spec{.name = "u",
                                     .width = work.width,
                                     .rule = "adagrad:rate=0.1",
                                     .admit_after = 5,
                                     .evict_after = 3};
  SparseChainWorld world(spec, 2, work);
  if (meddle != nullptr)
    world.chains.meddle_with_all([&](SparseServer& one) { meddle(one, world.shape); });
  SeededNumbers numbers(of_seed);
  plan_troubles_of(world.chains, numbers, {.kills = 3, .moves = 2});
  if (std::string why = world.run(); !why.empty()) return why;
  SparseWorld alone(spec, 3, work, {});
  if (!alone.run()) return "no progress of one server";
  return world.workers.at(0)->values() == alone.members[0]->values() ? "" : "other bits";
}
// Messages are slow, but keep their order.
std::string complaint_of_rests(MeddleWithShares meddle, std::uint64_t of_seed) {
  machine::NetworkFaults slow = kSparseWeather;
  slow.loss = slow.duplication = 0;
  slow.overtaking = false;
  return complaint_of_bits_in(slow, {.kills = 4}, meddle, of_seed);
}

struct SparseMutant {
  const char* name;
  std::string (*complaint)(MeddleWithShares, std::uint64_t seed);
  MeddleWithShares meddle;
};

class SparseChainMutants : public ::testing::TestWithParam<SparseMutant> {};

TEST_P(SparseChainMutants, AreCaughtBesideTheTrueProtocol) {
  constexpr int kMostSparseWorlds = 2'000;
  const auto& [name, complaint, meddle] = GetParam();
  int worlds = 0;
  for (bool is_caught = false; !is_caught && worlds < kMostSparseWorlds; ++worlds) {
    const std::uint64_t of_seed = seed(3690000 + static_cast<std::uint64_t>(worlds));
    ASSERT_EQ(complaint(nullptr, of_seed), "") << "the control, seed " << worlds;
    is_caught = !complaint(meddle, of_seed).empty();
    if (is_brief() && worlds > 5) break;  // sanitizers run a few
  }
  EXPECT_LT(worlds, kMostSparseWorlds) << name;
  RecordProperty("worlds", worlds);
  std::cout << name << ": " << worlds << " worlds\n";
}

INSTANTIATE_TEST_SUITE_P(
    All, SparseChainMutants,
    ::testing::Values(SparseMutant{"AnswersEarly", complaint_of_counting,
                                   [](SparseServer& one, const server::SparseShape&) {
                                     answer_pushes_early(one);
                                   }},
                      SparseMutant{"RestsBeforeItsPushesAreDecided", complaint_of_rests,
                                   [](SparseServer& one, const server::SparseShape&) {
                                     rest_before_pushes_are_decided(one);
                                   }},
                      SparseMutant{"ForgetsTheStateOfTheRule", complaint_of_bits,
                                   [](SparseServer& one, const server::SparseShape& shape) {
                                     change_share_snapshots(one, shape, forget_state_of_rule);
                                   }},
                      SparseMutant{"TakesRowsForYounger", complaint_of_ages,
                                   [](SparseServer& one, const server::SparseShape& shape) {
                                     change_share_snapshots(one, shape, make_rows_young);
                                   }},
                      SparseMutant{"ForgetsWhatWasCounted", complaint_of_ages,
                                   [](SparseServer& one, const server::SparseShape& shape) {
                                     change_share_snapshots(one, shape, forget_counts);
                                   }},
                      SparseMutant{"ForgetsPushesThatWait", complaint_of_counting,
                                   [](SparseServer& one, const server::SparseShape& shape) {
                                     change_share_snapshots(one, shape, forget_waiting_pushes);
                                   }}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace paceline::test
