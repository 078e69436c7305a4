#include "paceline/core/membership/generation/generation.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <set>

#include "paceline/core/membership/generation/generation_frames.h"
#include "tests/support/test_link.h"

namespace paceline::membership {
namespace {

using transport::FrameHeader;
using transport::FrameType;

constexpr std::uint32_t kGroup = 5;

// Two kinds of a room above.
constexpr FrameType kPatient{200}, kHasty{201};
constexpr auto kFramesAbove =
    std::to_array<transport::FrameKind>({{kPatient, "patient", 10}, {kHasty, "hasty", 10, false}});

// A link that keeps the frames that are sent through it.
class Wire final : public test::TestLink {
 public:
  using TestLink::TestLink;
  std::vector<std::pair<FrameType, std::vector<std::byte>>> sent;
  std::vector<std::uint64_t> offered, withdrawn;
  int abandons = 0;
  std::function<void()> on_abandon = [] {};

  void send(const FrameHeader& header, Bytes payload, transport::SendListener*,
            std::uint64_t) override {
    sent.emplace_back(header.type, std::vector<std::byte>(payload.begin(), payload.end()));
  }
  void offer(std::uint64_t segment, std::shared_ptr<const transport::SharedMemory>) override {
    offered.push_back(segment);
  }
  void withdraw(std::uint64_t segment) override { withdrawn.push_back(segment); }
  void abandon() override {
    ++abandons;
    on_abandon();
  }
  bool flushed() const override { return sent.empty(); }
};

class Sink final : public FrameSink {
 public:
  std::vector<FrameHeader> heard;
  std::vector<Failure> failures;
  std::vector<int> departures, arrivals;
  int borrows = 0;
  Result<> answer = Done{};
  std::vector<std::byte> target = std::vector<std::byte>(8);
  std::function<void()> on_failed = [] {};

  MutableBytes place(int, const FrameHeader&) override { return target; }
  Result<> received(int, const FrameHeader& header, Bytes, bool) override {
    heard.push_back(header);
    return answer;
  }
  Result<> borrowed(int, const FrameHeader& header, Bytes) override {
    ++borrows;
    heard.push_back(header);
    return answer;
  }
  void failed(const Failure& why) override {
    failures.push_back(why);
    on_failed();
  }
  void departed(int peer) override { departures.push_back(peer); }
  void arrived(int peer) override { arrivals.push_back(peer); }
  std::string pending_call_of(int peer) const override { return peer == 1 ? call_of_1 : ""; }
  std::string call_of_1;
};

class GenerationTest : public testing::Test {
 protected:
  GenerationTest() : generation({.rank = 1, .size = 3, .job = 9, .generation = 4}, kFramesAbove) {
    for (const int peer : {0, 2}) {
      auto wire = std::make_unique<Wire>(peer);
      wires[static_cast<std::size_t>(peer)] = wire.get();
      generation.attach(peer, std::move(wire));
    }
  }
  transport::LinkOwner& owner() { return generation.link_owner(); }
  static FrameHeader frame(std::uint64_t sequence) {
    return {.type = FrameType::data, .sequence = sequence, .group = kGroup};
  }

  Generation generation;
  std::array<Wire*, 3> wires = {};
};

const Failure kWhy{Fault::mismatch, "the ranks do not do the same", {0, 2}};

TEST_F(GenerationTest, KnowsItsLinksAndNoneToItself) {
  EXPECT_EQ(generation.link(0), wires[0]);
  EXPECT_EQ(generation.link(1), nullptr);
  const auto identity = generation.stream_identity(2);
  EXPECT_EQ(identity.peer_rank, 2u);
  EXPECT_EQ(identity.own_rank, 1u);
  EXPECT_EQ(identity.job, 9u);
  EXPECT_EQ(identity.generation, 4u);
}

TEST_F(GenerationTest, AMemberThatComesLateIsAPeerAsOthersAreWhoseLossFailsNobody) {
  Sink sink;
  generation.subscribe(kGroup, &sink);
  EXPECT_EQ(generation.link(5), nullptr) << "nobody has come";
  auto wire = std::make_unique<Wire>(5);
  Wire* const late = wire.get();
  generation.attach_late(5, std::move(wire));
  EXPECT_EQ(generation.link(5), late);
  EXPECT_EQ(generation.link(4), nullptr);
  EXPECT_EQ(sink.arrivals, std::vector{5});
  EXPECT_EQ(generation.late_members(), std::set{5});
  EXPECT_TRUE(owner().received(5, frame(1), {}, false));
  EXPECT_EQ(sink.heard.size(), 1U);
  owner().lost(5, {Fault::peer_lost, "killed", {}});
  EXPECT_EQ(sink.departures, std::vector{5});
  EXPECT_FALSE(generation.failure());
  EXPECT_EQ(generation.loss_of(5)->ranks, std::vector{5});
  generation.fail(kWhy);
  EXPECT_EQ(late->abandons, 1) << "a failure is everybody's";
}

TEST_F(GenerationTest, WhomALateMemberHasMissedHasDeparted) {
  generation.missed(2);
  EXPECT_TRUE(generation.has_departed(2));
  EXPECT_FALSE(generation.failure());
}

TEST_F(GenerationTest, ItsLinksKnowTheFramesOfTransportItsOwnAndThoseThatItWasHanded) {
  const transport::FrameKinds* const kinds = generation.stream_identity(2).kinds;
  EXPECT_EQ(kinds, &generation.frame_kinds());
  EXPECT_EQ(kinds->name_of(FrameType::goodbye), "goodbye");
  EXPECT_EQ(kinds->name_of(frame::kMachine), "machine");
  EXPECT_EQ(kinds->name_of(kPatient), "patient");
  EXPECT_EQ(Generation(GenerationIdentity{}).frame_kinds().find(kPatient), nullptr);
}

TEST_F(GenerationTest, AFrameAboveWithANumberOfItsOwnFramesIsMisuse) {
  const std::array clash = {transport::FrameKind{frame::kMachine, "another", 0}};
  EXPECT_THROW(Generation(GenerationIdentity{}, clash), Error);
}

// A caller that looks for a failure throws it at once, and may then free the memory that it has
// lent.
TEST_F(GenerationTest, TellsCallersOfAFailureWhenItsPeersAreStoppedAndItsGroupsHaveEnded) {
  Sink sink, other;
  int told_early = 0;
  const auto look = [&] { told_early += generation.failure() ? 1 : 0; };
  for (const std::size_t peer : {0U, 2U}) wires[peer]->on_abandon = look;
  sink.on_failed = other.on_failed = look;
  generation.subscribe(kGroup, &sink);
  generation.subscribe(kGroup + 1, &other);
  generation.fail(kWhy);
  EXPECT_EQ(told_early, 0);
  EXPECT_EQ(generation.failure(), kWhy);
  EXPECT_EQ(sink.failures.size() + other.failures.size(), 2U);
}

TEST_F(GenerationTest, FramesReachTheSinkOfTheirGroup) {
  Sink sink, other;
  generation.subscribe(kGroup, &sink);
  generation.subscribe(kGroup + 1, &other);
  EXPECT_EQ(owner().place(0, frame(1)).data(), sink.target.data());
  EXPECT_TRUE(owner().received(0, frame(1), {}, false));
  EXPECT_TRUE(owner().borrowed(2, frame(2), sink.target));
  EXPECT_EQ(sink.heard, (std::vector<FrameHeader>{frame(1), frame(2)}));
  EXPECT_EQ(sink.borrows, 1);
  EXPECT_TRUE(other.heard.empty());
}

TEST_F(GenerationTest, FramesOfAGroupThatIsNotMadeYetAreKeptInOrder) {
  const std::vector<std::byte> memory(8);
  EXPECT_TRUE(owner().place(0, frame(1)).empty());
  EXPECT_TRUE(owner().received(0, frame(1), memory, false));
  EXPECT_TRUE(owner().borrowed(0, frame(2), memory));
  EXPECT_TRUE(owner().received(2, frame(3), {}, false));
  Sink sink;
  generation.subscribe(kGroup, &sink);
  EXPECT_EQ(sink.heard, (std::vector<FrameHeader>{frame(1), frame(2), frame(3)}));
  EXPECT_EQ(sink.borrows, 1);
  generation.subscribe(kGroup, nullptr);
  EXPECT_TRUE(owner().received(0, frame(4), {}, false));
  generation.subscribe(kGroup, &sink);
  EXPECT_EQ(sink.heard.back(), frame(4));
}

TEST_F(GenerationTest, FramesThatWaitForNoReceiverAreDroppedWhereThereIsNone) {
  for (const FrameType type : {kPatient, kHasty})
    EXPECT_TRUE(owner().received(0, {.type = type, .group = kGroup}, {}, false));
  Sink sink;
  generation.subscribe(kGroup, &sink);
  ASSERT_EQ(sink.heard.size(), 1u);
  EXPECT_EQ(sink.heard[0].type, kPatient);
  EXPECT_TRUE(owner().received(0, {.type = kHasty, .group = kGroup}, {}, false));
  EXPECT_EQ(sink.heard.size(), 2u);
}

TEST_F(GenerationTest, FramesOfAGroupThatNeverComesAreBounded) {
  const std::vector<std::byte> payload(1 << 20);
  Result<> kept = Done{};
  int count = 0;
  for (; kept && count < 1000; ++count) kept = owner().received(0, frame(1), payload, false);
  ASSERT_FALSE(kept);
  EXPECT_LE(count, 64);
  EXPECT_EQ(kept.error().what, "too many frames for group 5, which this rank has not made");
}

TEST_F(GenerationTest, TheFirstFailureIsEverybodys) {
  Sink sink;
  generation.subscribe(kGroup, &sink);
  std::vector<Failure> told;
  generation.on_failure([&](const Failure& why) { told.push_back(why); });
  generation.fail(kWhy);
  generation.fail({Fault::io, "later", {}});
  EXPECT_EQ(generation.failure(), kWhy);
  EXPECT_EQ(told, std::vector{kWhy});
  EXPECT_EQ(sink.failures, std::vector{kWhy});
  for (const Wire* wire : {wires[0], wires[2]}) {
    EXPECT_EQ(wire->abandons, 1);
    ASSERT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(wire->sent[0].first, FrameType::failure);
    EXPECT_EQ(transport::decode_failure(wire->sent[0].second), kWhy);
  }
  std::optional<Failure> late;
  generation.on_failure([&](const Failure& why) { late = why; });
  EXPECT_EQ(late, kWhy);
}

TEST_F(GenerationTest, AfterAFailureNothingReachesASink) {
  Sink sink;
  generation.subscribe(kGroup, &sink);
  generation.fail(kWhy);
  EXPECT_TRUE(owner().place(0, frame(1)).empty());
  EXPECT_TRUE(owner().received(0, frame(1), {}, false));
  EXPECT_TRUE(owner().borrowed(0, frame(2), sink.target));
  EXPECT_TRUE(sink.heard.empty());
}

// A reference that came early may point to memory that its owner, having failed, no longer shares.
TEST_F(GenerationTest, ASinkThatComesAfterTheFailureHearsOfItAndOfNoEarlyFrame) {
  auto memory = std::make_unique<std::vector<std::byte>>(8);
  EXPECT_TRUE(owner().borrowed(0, frame(1), *memory));
  generation.fail(kWhy);
  memory.reset();
  Sink sink;
  generation.subscribe(kGroup, &sink);
  EXPECT_TRUE(sink.heard.empty());
  EXPECT_EQ(sink.failures, std::vector{kWhy});
}

TEST_F(GenerationTest, AFailureToldByAPeerKeepsItsCause) {
  Sink sink;
  generation.subscribe(kGroup, &sink);
  EXPECT_TRUE(owner().received(2, {.type = FrameType::failure}, transport::encode(kWhy), false));
  EXPECT_EQ(sink.failures, std::vector{kWhy});
  EXPECT_FALSE(owner().received(2, {.type = FrameType::failure}, {}, false))
      << "malformed: it ends the link";
}

TEST_F(GenerationTest, WhatASinkRefusesFailsTheGeneration) {
  Sink sink;
  sink.answer = kWhy;
  generation.subscribe(kGroup, &sink);
  EXPECT_TRUE(owner().received(0, frame(1), {}, false)) << "the link stays, to tell the peer";
  EXPECT_EQ(generation.failure(), kWhy);
}

TEST_F(GenerationTest, ASinkThatEndsAnotherWhileItFailsIsSafe) {
  Sink first, second;
  generation.subscribe(1, &first);
  generation.subscribe(2, &second);
  first.on_failed = [&] { generation.subscribe(2, nullptr); };
  generation.fail(kWhy);
  EXPECT_TRUE(second.failures.empty());
}

TEST_F(GenerationTest, ALostPeerIsNamedUnlessItSaidGoodbye) {
  Sink sink;
  generation.subscribe(kGroup, &sink);
  EXPECT_TRUE(owner().received(2, {.type = FrameType::goodbye}, {}, false));
  EXPECT_EQ(sink.departures, std::vector{2});
  EXPECT_TRUE(generation.has_departed(2));
  owner().lost(2, {Fault::peer_lost, "closed", {}});
  EXPECT_FALSE(generation.failure());
  owner().lost(0, {Fault::peer_lost, "the connection was closed by the other side", {}});
  ASSERT_TRUE(generation.failure());
  EXPECT_EQ(generation.failure()->fault, Fault::peer_lost);
  EXPECT_EQ(generation.failure()->ranks, std::vector{0});
  EXPECT_TRUE(generation.failure()->what.starts_with(
      "rank 0 was lost: the connection was closed by the other side"));
}

TEST_F(GenerationTest, APeerThatHasNamedItsDeviceIsNamedWithIt) {
  const std::string_view name = "cuda:1";
  EXPECT_EQ(generation.device_of(0), "");
  EXPECT_TRUE(owner().received(0, {.type = frame::kDevice}, std::as_bytes(std::span(name)), false));
  EXPECT_EQ(generation.device_of(0), " (on cuda:1)");
  EXPECT_EQ(generation.device_of(2), "");
  owner().lost(0, {Fault::peer_lost, "closed", {}});
  EXPECT_TRUE(generation.failure()->what.starts_with("rank 0 (on cuda:1) was lost: closed"));
}

TEST_F(GenerationTest, ADeviceIsToldToAllPeersOnceForEachName) {
  for (const char* name : {"cuda:0", "cuda:0", "cuda:1"}) generation.name_device(name);
  for (const Wire* wire : {wires[0], wires[2]}) {
    ASSERT_EQ(wire->sent.size(), 2U);
    EXPECT_EQ(wire->sent[0].first, frame::kDevice);
    EXPECT_EQ(wire->sent[0].second.size(), 6U);
  }
}

TEST_F(GenerationTest, ADeviceIsToldToAMemberThatComesLateToo) {
  generation.name_device("cuda:0");
  auto wire = std::make_unique<Wire>(5);
  Wire* const late = wire.get();
  generation.attach_late(5, std::move(wire));
  ASSERT_EQ(late->sent.size(), 1U);
  EXPECT_EQ(late->sent[0].first, frame::kDevice);
}

TEST_F(GenerationTest, TheLaunchersVerdictOnOneRankHasItsDevice) {
  const std::string_view name = "cuda:1";
  EXPECT_TRUE(owner().received(0, {.type = frame::kDevice}, std::as_bytes(std::span(name)), false));
  generation.fail_as_told({Fault::peer_lost, "rank 0 (pid 12) was killed by signal 9", {0}});
  EXPECT_EQ(generation.failure()->what, "rank 0 (pid 12) was killed by signal 9 (on cuda:1)");
}

TEST_F(GenerationTest, ANameOfADeviceThatIsNoTextIsNotTold) {
  for (const char* name : {"", "cuda\n0", "\x80"}) generation.name_device(name);
  for (const Wire* wire : {wires[0], wires[2]}) EXPECT_TRUE(wire->sent.empty());
}

TEST_F(GenerationTest, ANameOfADeviceThatIsNoTextIsRefused) {
  for (const std::string_view name : {"", "cuda\n0", "\x80"}) {
    const auto taken =
        owner().received(0, {.type = frame::kDevice}, std::as_bytes(std::span(name)), false);
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().ranks, std::vector{0});
  }
}

TEST_F(GenerationTest, WhoeverLeavesSaysGoodbyeAndMissesNobody) {
  generation.leave();
  for (const Wire* wire : {wires[0], wires[2]})
    EXPECT_EQ(wire->sent.at(0).first, FrameType::goodbye);
  EXPECT_FALSE(generation.flushed());
  owner().lost(0, {Fault::peer_lost, "closed", {}});
  EXPECT_FALSE(generation.failure());
}

TEST_F(GenerationTest, OnceClosedItTellsNobody) {
  int told = 0;
  generation.on_failure([&](const Failure&) { ++told; });
  generation.close();
  EXPECT_EQ(generation.link(0), nullptr);
  generation.fail(kWhy);
  EXPECT_EQ(told, 0);
}

TEST_F(GenerationTest, SharedMemoryIsKnownToAllLinks) {
  const auto memory = std::make_shared<const transport::SharedMemory>(
      transport::SharedMemory::create(4096).value());
  generation.share(7, memory);
  EXPECT_EQ(generation.segments().find(memory->bytes()), (transport::Remote{7, 0}));
  generation.unshare(7);
  EXPECT_FALSE(generation.segments().find(memory->bytes()));
  EXPECT_EQ(wires[0]->offered, std::vector<std::uint64_t>{7});
  EXPECT_EQ(wires[2]->withdrawn, std::vector<std::uint64_t>{7});
}

TEST(Hosts, ARankHasCompanyWhereAnotherOneOfItsHostSharesMemory) {
  Hosts hosts{.of_ranks = {0, 1, 0}, .pools = {}, .share_memory = true};
  EXPECT_TRUE(hosts.has_company(0));
  EXPECT_FALSE(hosts.has_company(1));
  EXPECT_TRUE(hosts.has_company(2));
  hosts.share_memory = false;
  EXPECT_FALSE(hosts.has_company(0));
}

TEST(Hosts, ARankIsCrowdedWhereMoreThanTheProcessorsShareThoseOfItsOwn) {
  const Hosts hosts{.of_ranks = {0, 0, 1, 1}, .pools = {{{0, 3}, 1}, {{1}, 1}, {{2}, .5}}};
  EXPECT_TRUE(hosts.is_crowded(0));
  EXPECT_FALSE(hosts.is_crowded(1));
  EXPECT_TRUE(hosts.is_crowded(2));
  EXPECT_TRUE(hosts.is_crowded(3));
  const int processors = own_processors().count();
  EXPECT_FALSE(Hosts::this_one(processors, true).is_crowded(0));
  EXPECT_TRUE(Hosts::this_one(processors + 1, true).is_crowded(processors));
}

}  // namespace
}  // namespace paceline::membership
