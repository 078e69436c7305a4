#include "paceline/core/schedule/dispatch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "paceline/core/base/result.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/schedule/policies.h"

namespace paceline::schedule {
namespace {

Model random_model(SeededNumbers& numbers) {
  Model model{.name = "random", .tensors = {}};
  const auto tensors = 1 + numbers.below(12);
  for (std::uint64_t i = 0; i < tensors; ++i)
    model.tensors.push_back({.bytes = 4 * (1 + numbers.below(500))});
  return model;
}

Plan random_plan(const Model& model, SeededNumbers& numbers) {
  Cuts cuts = {0};
  for (int place = 1; place <= model.size(); ++place) {
    if (place == model.size() || numbers.below(2) == 0) cuts.push_back(place);
  }
  return plan_of("random", cuts,
                 {.part_bytes = numbers.below(3) == 0 ? 0 : 4 * (60 + numbers.below(300)),
                  .by_forward_order = numbers.below(2) == 0,
                  .crosses_barrier = numbers.below(2) == 0,
                  .window_bytes = numbers.below(3) == 0 ? 0 : 1 + numbers.below(3000)});
}

// One rank: gradients become ready in the order of the backward pass, at any time.
struct Rank {
  explicit Rank(const Model& model, const Plan& plan) : dispatch(model, plan) {}
  Dispatch dispatch;
  int computed = 0;           // gradients of this step
  std::vector<int> sent;      // messages of this step
  std::vector<int> returned;  // of these
};

class World {
 public:
  World(std::uint64_t seed) : numbers_(seed), model_(random_model(numbers_)) {
    const Plan plan = random_plan(model_, numbers_);
    const auto ranks = 1 + numbers_.below(4);
    for (std::uint64_t r = 0; r < ranks; ++r) ranks_.emplace_back(model_, plan);
  }

  void run_step() {
    chosen_.clear();
    for (Rank& rank : ranks_) {
      ASSERT_TRUE(rank.dispatch.is_between_steps());
      rank.computed = 0;
      rank.sent.clear();
      rank.returned.clear();
    }
    for (int idle = 0; !is_over();) {
      ASSERT_LT(idle, 10000) << "nobody can go on";
      idle = advance(numbers_.below(ranks_.size())) ? 0 : idle + 1;
    }
    const auto messages = ranks_[0].dispatch.messages().size();
    for (const Rank& rank : ranks_) {
      EXPECT_EQ(rank.sent, ranks_[0].sent) << "all ranks hand over in the same order";
      EXPECT_EQ(std::set(rank.sent.begin(), rank.sent.end()).size(), messages);
      EXPECT_EQ(rank.sent.size(), messages) << "each message once";
    }
  }

 private:
  bool is_over() const {
    return std::ranges::all_of(ranks_, [](const Rank& rank) {
      return rank.returned.size() == rank.dispatch.messages().size();
    });
  }

  bool advance(std::size_t r) {
    Rank& rank = ranks_[r];
    switch (numbers_.below(3)) {
      case 0:
        if (rank.computed == model_.size()) return false;
        rank.dispatch.ready(rank.computed++);
        return true;
      case 1: return send(r);
      default: return take_back(rank);
    }
  }

  bool send(std::size_t r) {
    Rank& rank = ranks_[r];
    if (!rank.dispatch.has_priorities() || r == 0) {
      const auto message = rank.dispatch.next();
      if (message) rank.sent.push_back(*message);
      if (message && r == 0) chosen_.push_back(*message);
      return message.has_value();
    }
    if (rank.sent.size() == chosen_.size()) return false;
    const int message = chosen_[rank.sent.size()];
    if (!rank.dispatch.is_ready(message)) return false;
    rank.dispatch.follow(message);
    rank.sent.push_back(message);
    return true;
  }

  // A message is back when all ranks have handed it over; in any order.
  bool take_back(Rank& rank) {
    std::vector<int> under_way;
    for (const int message : rank.sent) {
      const bool everywhere = std::ranges::all_of(ranks_, [message](const Rank& other) {
        return std::ranges::find(other.sent, message) != other.sent.end();
      });
      if (everywhere && std::ranges::find(rank.returned, message) == rank.returned.end())
        under_way.push_back(message);
    }
    if (under_way.empty()) return false;
    rank.returned.push_back(under_way[numbers_.below(under_way.size())]);
    rank.dispatch.back(rank.returned.back());
    return true;
  }

  SeededNumbers numbers_;
  Model model_;
  std::deque<Rank> ranks_;
  std::vector<int> chosen_;
};

TEST(Dispatch, AllRanksSendEachMessageOnceInOneOrderWhateverHappensWhen) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    World world(seed);
    for (int step = 0; step < 3; ++step) ASSERT_NO_FATAL_FAILURE(world.run_step()) << seed;
  }
}

TEST(Dispatch, PartsTileTheirGroupsAndGroupsTheModel) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SeededNumbers numbers(seed);
    const Model model = random_model(numbers);
    const Dispatch dispatch(model, random_plan(model, numbers));
    std::vector<std::size_t> next(dispatch.plan().groups.size());
    for (const auto& message : dispatch.messages()) {
      auto& at = next[static_cast<std::size_t>(message.group)];
      EXPECT_EQ(message.begin, at);
      EXPECT_GT(message.end, message.begin);
      at = message.end;
    }
    std::size_t elements = 0;
    for (std::size_t g = 0; g < next.size(); ++g) {
      EXPECT_EQ(next[g], dispatch.elements(static_cast<int>(g)));
      elements += next[g];
    }
    EXPECT_EQ(elements * sizeof(float), model.bytes());
  }
}

Model three_tensors() {
  return {.name = "three", .tensors = {{.bytes = 400}, {.bytes = 400}, {.bytes = 400}}};
}

TEST(Dispatch, WhatIsReadFirstOvertakesWhatIsReadyAndNotHandedOver) {
  Dispatch dispatch(three_tensors(),
                    priority(three_tensors(), {.part_bytes = 200, .window_bytes = 200}));
  std::vector<int> places;
  const auto hand_over = [&] {
    const auto message = dispatch.next();
    if (message) places.push_back(dispatch.messages()[static_cast<std::size_t>(*message)].group);
    return message;
  };
  dispatch.ready(0);
  auto first = hand_over();
  EXPECT_FALSE(hand_over()) << "the window is full";
  dispatch.ready(1);
  dispatch.ready(2);
  dispatch.back(*first);
  while (const auto next = hand_over()) dispatch.back(*next);
  EXPECT_EQ(places, (std::vector{0, 2, 2, 1, 1, 0}));
}

TEST(Dispatch, WithoutPrioritiesTheOrderOfThePlanHoldsThoughLaterGroupsAreReady) {
  Dispatch dispatch(three_tensors(), wait_free(three_tensors()));
  dispatch.ready(1);
  EXPECT_FALSE(dispatch.next());
  dispatch.ready(0);
  EXPECT_EQ(dispatch.next(), 0);
  EXPECT_EQ(dispatch.next(), 1);
  EXPECT_FALSE(dispatch.next());
}

TEST(Dispatch, TheWindowIsPassedByLessThanOneMessage) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SeededNumbers numbers(seed);
    const Model model = random_model(numbers);
    Dispatch dispatch(model, random_plan(model, numbers));
    const std::size_t window = dispatch.plan().window_bytes;
    if (window == 0) continue;
    for (int place = 0; place < model.size(); ++place) dispatch.ready(place);
    std::size_t before_last = 0, under_way = 0;
    while (const auto message = dispatch.next()) {
      const auto& m = dispatch.messages()[static_cast<std::size_t>(*message)];
      before_last = under_way;
      under_way += (m.end - m.begin) * sizeof(float);
    }
    EXPECT_LT(before_last, window) << seed;
    EXPECT_TRUE(under_way >= window || under_way == model.bytes()) << seed;
  }
}

TEST(Dispatch, AGradientThatIsReadyTwiceIsMisuse) {
  Dispatch dispatch(three_tensors(), wait_free(three_tensors()));
  dispatch.ready(0);
  EXPECT_THROW(dispatch.ready(0), Error);
}

}  // namespace
}  // namespace paceline::schedule
