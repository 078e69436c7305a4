// All kinds of frames that Paceline's rooms send, as a job and its store put them together.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/collective/call/collective_frames.h"
#include "paceline/core/job/job_impl.h"
#include "paceline/core/job/local_world.h"
#include "paceline/core/membership/generation/generation_frames.h"
#include "paceline/core/membership/store/store_frames.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using transport::FrameKind;
using transport::FrameKinds;
using transport::FrameType;

enum class Carries { nothing, name, word, control, data };

std::size_t longest(Carries carries) {
  if (carries == Carries::nothing) return 0;
  if (carries == Carries::name) return 64;
  if (carries == Carries::word) return std::size_t{64} << 10;
  return std::size_t{carries == Carries::data ? 4U : 1U} << 20;
}

// The table of docs/wire.md. These numbers change with the version of the wire alone.
const std::map<int, std::pair<std::string, Carries>> kOnTheWire = {
    {1, {"call", Carries::control}},        {2, {"data", Carries::data}},
    {3, {"reference", Carries::control}},   {4, {"taken", Carries::nothing}},
    {5, {"stored", Carries::control}},      {6, {"announce", Carries::control}},
    {7, {"matched", Carries::nothing}},     {8, {"message", Carries::data}},
    {9, {"withdraw", Carries::control}},    {10, {"failure", Carries::control}},
    {11, {"goodbye", Carries::nothing}},    {12, {"store_set", Carries::control}},
    {13, {"store_get", Carries::control}},  {14, {"store_value", Carries::control}},
    {15, {"verdict", Carries::control}},    {16, {"report", Carries::control}},
    {17, {"nudge", Carries::nothing}},      {18, {"posted", Carries::control}},
    {19, {"invitation", Carries::control}}, {20, {"passed", Carries::nothing}},
    {21, {"heard", Carries::nothing}},      {22, {"machine", Carries::data}},
    {23, {"assent", Carries::control}},     {24, {"saved", Carries::control}},
    {25, {"wanted", Carries::nothing}},     {26, {"attached", Carries::control}},
    {27, {"withheld", Carries::control}},   {28, {"server_report", Carries::word}},
    {29, {"server_map", Carries::word}},    {30, {"linked", Carries::nothing}},
    {31, {"device", Carries::name}},
};

// Transport's with those of all rooms.
FrameKinds kinds_of_all_rooms() {
  FrameKinds all(collective::kCollectiveFrames);
  all.add(membership::kGenerationFrames);
  all.add(membership::kStoreFrames);
  return all;
}

TEST(FramesOfRooms, HaveTheNumbersNamesAndLengthsOfTheWire) {
  const FrameKinds all = kinds_of_all_rooms();
  for (int number = 0; number < 256; ++number) {
    const FrameKind* const kind = all.find(static_cast<FrameType>(number));
    const auto expected = kOnTheWire.find(number);
    ASSERT_EQ(kind != nullptr, expected != kOnTheWire.end()) << number;
    if (kind == nullptr) continue;
    EXPECT_EQ(kind->name, expected->second.first);
    EXPECT_EQ(kind->longest_payload, longest(expected->second.second)) << kind->name;
  }
}

// The group of a short send may end before its receiver has answered.
TEST(FramesOfRooms, WaitForTheirReceiverExceptTheAnswerToASend) {
  const FrameKinds all = kinds_of_all_rooms();
  for (const auto& [number, kind] : kOnTheWire)
    EXPECT_EQ(all.find(static_cast<FrameType>(number))->waits_for_receiver, kind.first != "matched")
        << kind.first;
}

TEST(FramesOfRooms, HaveANameOfTheirOwn) {
  const FrameKinds all = kinds_of_all_rooms();
  std::set<std::string_view> names;
  for (int number = 0; number < 256; ++number) {
    const FrameKind* const kind = all.find(static_cast<FrameType>(number));
    if (kind != nullptr) {
      EXPECT_TRUE(names.insert(kind->name).second) << kind->name;
    }
  }
  EXPECT_EQ(names.size(), kOnTheWire.size());
}

std::string refusal_of(FrameType type, const FrameKinds& kinds) {
  const auto header = transport::decode(transport::encode({.type = type}), kinds);
  return header ? "none" : header.error().what;
}

std::string unknown(FrameType type) {
  return "malformed frame: unknown type " + std::to_string(static_cast<int>(type));
}

TEST(FramesOfRooms, TheStoreAndRanksDoNotKnowEachOthers) {
  std::vector<Job> jobs = make_local_world(1);
  const FrameKinds& of_links = *jobs[0].impl().generation->stream_identity(0).kinds;
  std::vector<FrameKind> of_ranks(collective::kCollectiveFrames.begin(),
                                  collective::kCollectiveFrames.end());
  of_ranks.insert(of_ranks.end(), membership::kGenerationFrames.begin(),
                  membership::kGenerationFrames.end());
  for (const FrameKind& kind : of_ranks) {
    EXPECT_EQ(refusal_of(kind.type, membership::kStoreKinds), unknown(kind.type)) << kind.name;
    EXPECT_EQ(refusal_of(kind.type, of_links), "none") << kind.name;
  }
  for (const FrameKind& kind : membership::kStoreFrames) {
    EXPECT_EQ(refusal_of(kind.type, of_links), unknown(kind.type)) << kind.name;
    EXPECT_EQ(refusal_of(kind.type, membership::kStoreKinds), "none") << kind.name;
  }
}

TEST(FramesOfRooms, AFrameOfTheStoreBetweenRanksEndsTheirLink) {
  for (const bool share_memory : {true, false}) {
    std::vector<Job> jobs = make_local_world(2, {.share_memory = share_memory});
    Job::Impl& one = jobs[0].impl();
    Job::Impl& other = jobs[1].impl();
    one.reactor->run([&] {
      one.generation->link(1)->send({.type = membership::frame::kReport},
                                    transport::encode(Failure{Fault::io, "no disk", {0}}));
    });
    ASSERT_TRUE(other.reactor->drive_until([&] { return other.generation->failure().has_value(); },
                                           Deadline::in(20s)));
    EXPECT_EQ(other.generation->failure()->ranks, std::vector{0});
    EXPECT_NE(other.generation->failure()->what.find("unknown type 16"), std::string::npos)
        << other.generation->failure()->what;
  }
}

}  // namespace
}  // namespace paceline
