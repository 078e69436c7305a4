#include "paceline/core/schedule/order/gradient_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/base/result.h"
#include "paceline/core/schedule/replay/replay_models.h"

namespace paceline::schedule {
namespace {

Model small() {
  Model model{.name = "small"};
  for (const std::size_t bytes : {400u, 100000u, 40u, 200000u})
    model.tensors.push_back({.bytes = bytes, .forward = 1, .backward = 2});
  return model;
}

TEST(MessagePlan, GroupsThatDoNotTileTheSendOrderAreRefused) {
  const MessagePlan good = plan_of("good", {0, 2, 4}, {});
  EXPECT_NO_THROW(check(good, 4));
  EXPECT_THROW(check(good, 5), Error);
  for (const Cuts& cuts : {Cuts{0, 2, 2, 4}, Cuts{1, 4}, Cuts{0, 3, 2, 4}, Cuts{0, 3}})
    EXPECT_THROW(check(plan_of("bad", cuts, {}), 4), Error) << ::testing::PrintToString(cuts);
}

TEST(MessagePlan, BucketsTileEveryModelAndAllButTheLastAreFull) {
  for (const Model& model : replay_models()) {
    for (const double least : {1.0, 1e6, 25e6, 1e12}) {
      const MessagePlan plan = plan_of("buckets", buckets_of(model, least), {});
      check(plan, model.size());
      EXPECT_EQ(cuts_of(plan), buckets_of(model, least));
      for (std::size_t i = 0; i + 1 < plan.groups.size(); ++i)
        EXPECT_GE(bytes_of(model, plan.groups[i]), least);
    }
  }
}

TEST(MessagePlan, PartsAreNoLargerThanAskedForAndNoMoreThanNeeded) {
  const Model model = small();
  MessageGroup whole{.begin = 0, .end = 4};
  EXPECT_EQ(parts_of(model, whole), 1);
  for (const std::size_t part : {1000u, 100146u, 100147u, 300439u, 300440u, 300441u}) {
    whole.part_bytes = part;
    const int parts = parts_of(model, whole);
    EXPECT_LE(300440.0 / parts, static_cast<double>(part));
    EXPECT_TRUE(parts == 1 || 300440.0 / (parts - 1) > static_cast<double>(part));
  }
}

TEST(MessagePlan, SmallTensorsTravelUncompressedInACompressedGroup) {
  const MessageGroup whole{.begin = 0, .end = 4};
  EXPECT_EQ(wire_bytes(small(), whole, {.ratio = .25}), 440 + 300000 * .25);
  EXPECT_EQ(wire_bytes(small(), whole, {}), bytes_of(small(), whole));
}

TEST(MessagePlan, EachTensorIsAsLongOnTheWireAsItsOfferMakesIt) {
  Model model{.name = "two", .tensors = {{.bytes = 100000, .offer = 1}, {.bytes = 200000}}};
  const CodecCost codec{.name = "menu", .ratio = .5, .offers = {{.ratio = .5}, {.ratio = .01}}};
  EXPECT_EQ(wire_bytes(model, {.begin = 0, .end = 2}, codec), 100000 * .01 + 200000 * .5);
  EXPECT_EQ(codec.of(1).ratio, .01);
  EXPECT_EQ((CodecCost{.ratio = .25}).of(7).ratio, .25) << "no menu: all alike";
}

TEST(MessagePlan, WhatIsEncodedTravelsInShortMessagesAndTheRestAsItDid) {
  for (const Model& model : replay_models()) {
    for (const std::size_t part : {0u, 1000000u, 25000000u}) {
      const MessagePlan plain = plan_of("plan", buckets_of(model, 25e6), {.part_bytes = part});
      EXPECT_EQ(encoded(plain, std::string(kUncompressed)), plain);
      for (const MessageGroup& group : encoded(plain, "int8").groups) {
        EXPECT_EQ(group.codec, "int8");
        EXPECT_LE(group.part_bytes, kLongestEncoded);
        EXPECT_LE(bytes_of(model, group) / parts_of(model, group), kLongestEncoded);
        if (part == 1000000) {
          EXPECT_EQ(group.part_bytes, part);
        }
      }
    }
  }
}

TEST(MessagePlan, AMethodThatNeedsWholeTensorsHasItsGroupsLeftWhole) {
  for (const Model& model : replay_models()) {
    const MessagePlan cut = plan_of("plan", buckets_of(model, 25e6), {.part_bytes = 1000000});
    for (const std::string codec : {"power_sgd", "power_sgd:rank=1", "power_sgd:rank=4/1"}) {
      for (const MessageGroup& group : encoded(cut, codec).groups)
        EXPECT_EQ(parts_of(model, group), 1);
    }
  }
}

TEST(MessagePlan, ByForwardOrderWhatTheNextPassReadsFirstHasTheLowestNumber) {
  const MessagePlan plan = plan_of("p", {0, 1, 3, 4}, {.by_forward_order = true});
  EXPECT_EQ(plan.groups[0].priority, 3);  // starts with the last tensor alone
  EXPECT_EQ(plan.groups[1].priority, 1);
  EXPECT_EQ(plan.groups[2].priority, 0);
  EXPECT_EQ(plan_of("q", {0, 4}, {}).groups[0].priority, std::nullopt);
}

TEST(MessagePlan, OnAnotherPathNothingChangesButThatAWindowToServersHasRoom) {
  const MessagePlan plan = plan_of("two", {0, 1, 4}, {.part_bytes = 50000, .codec = "fp16"});
  const MessagePlan there = on_path(Path::server, plan);
  EXPECT_TRUE(std::ranges::all_of(
      there.groups, [](const MessageGroup& group) { return group.path == Path::server; }));
  EXPECT_EQ(on_path(Path::all_to_all, there), plan);
  const MessagePlan narrow = plan_of("narrow", {0, 4}, {.window_bytes = 4096});
  EXPECT_EQ(on_path(Path::server, narrow).window_bytes, kServerWindow);
  EXPECT_EQ(on_path(Path::all_to_all, narrow).window_bytes, 4096u);
}

TEST(MessagePlan, ItsTextTellsGroupsMessagesWaysAndWindow) {
  const MessagePlan plan = plan_of("priority", {0, 1, 4},
                                   {.path = Path::server,
                                    .part_bytes = 50000,
                                    .codec = "fp16",
                                    .crosses_barrier = true,
                                    .window_bytes = 16400000});
  EXPECT_EQ(to_string(plan, small()),
            "priority: 2 groups in 7 messages, server/fp16, across the barrier, window 16.4 MB");
}

}  // namespace
}  // namespace paceline::schedule
