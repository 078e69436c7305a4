#include "paceline/core/schedule/path/dispatch.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/base/result.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/schedule/policies/policies.h"
#include "tests/support/seed.h"

namespace paceline::schedule {
namespace {

Model model_of_random_sizes(SeededNumbers& numbers) {
  Model model{.name = "random", .tensors = {}};
  const auto tensors = 1 + numbers.below(12);
  for (std::uint64_t i = 0; i < tensors; ++i)
    model.tensors.push_back({.bytes = 4 * (1 + numbers.below(500))});
  return model;
}

MessagePlan random_plan(const Model& model, SeededNumbers& numbers) {
  Cuts cuts = {0};
  for (int place = 1; place <= model.size(); ++place) {
    if (place == model.size() || numbers.below(2) == 0) cuts.push_back(place);
  }
  return plan_of("random", cuts,
                 {.part_bytes = numbers.below(3) == 0 ? 0 : 4 * (60 + numbers.below(300)),
                  .crosses_barrier = numbers.below(2) == 0});
}

// Gradients become ready and messages come back in any order, step after step.
std::vector<int> groups_sent(Dispatch& dispatch, int tensors, SeededNumbers& numbers) {
  std::vector<int> to_come, under_way, sent;
  for (int place = 0; place < tensors; ++place) to_come.push_back(place);
  std::size_t returned = 0;
  const auto take_one = [&numbers](std::vector<int>& from) {
    const auto at = static_cast<std::ptrdiff_t>(numbers.below(from.size()));
    const int taken = from[static_cast<std::size_t>(at)];
    from.erase(from.begin() + at);
    return taken;
  };
  for (int idle = 0; returned < dispatch.messages().size(); ++idle) {
    if (idle > 10000) {
      ADD_FAILURE() << "nothing goes on";
      break;
    }
    if (numbers.below(2) == 0 && !to_come.empty()) dispatch.ready(take_one(to_come));
    if (const auto message = dispatch.next()) {
      sent.push_back(dispatch.messages()[static_cast<std::size_t>(*message)].group);
      under_way.push_back(*message);
    }
    if (numbers.below(2) == 0 && !under_way.empty()) {
      dispatch.back(take_one(under_way));
      ++returned;
    }
  }
  return sent;
}

TEST(Dispatch, SendsEachMessageOnceInThePlansOrderWhateverHappensWhen) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SeededNumbers numbers(test::seed(seed));
    const Model model = model_of_random_sizes(numbers);
    MessagePlan plan = random_plan(model, numbers);
    std::vector<int> order;
    const Dispatch by_itself(model, plan);
    for (const auto& message : by_itself.messages()) order.push_back(message.group);
    if (numbers.below(2) == 0) {
      for (std::size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[numbers.below(i)]);
      plan.order = order;
    }
    Dispatch dispatch(model, plan);
    for (int step = 0; step < 3; ++step)
      ASSERT_EQ(groups_sent(dispatch, model.size(), numbers), order) << seed;
  }
}

// A codec takes a piece of odd length for a vector, which travels whole.
TEST(Dispatch, LongPartsTileTheirGroupInWholeBlocks) {
  SeededNumbers numbers(test::seed(3));
  for (int i = 0; i < 200; ++i) {
    const std::size_t elements = 100000 + numbers.below(10'000'000), parts = 1 + numbers.below(6);
    const Model model{.name = "one", .tensors = {{.bytes = 4 * elements}}};
    const Dispatch dispatch(
        model, plan_of("parts", {0, 1}, {.part_bytes = (4 * elements + parts - 1) / parts}));
    ASSERT_EQ(dispatch.messages().size(), parts);
    std::size_t at = 0;
    for (const auto& message : dispatch.messages()) {
      EXPECT_EQ(message.begin, at);
      EXPECT_EQ(message.begin % 1024, 0u);
      EXPECT_NEAR(static_cast<double>(message.end - message.begin),
                  static_cast<double>(elements) / static_cast<double>(parts), 1024);
      at = message.end;
    }
    EXPECT_EQ(at, elements);
  }
}

TEST(Dispatch, LongPartsForACodecBeginAtRowsOfTheTensorThatIsCut) {
  SeededNumbers numbers(test::seed(4));
  for (int i = 0; i < 200; ++i) {
    Model model{.name = "matrices", .tensors = {}};
    for (int t = 0; t < 3; ++t) {
      const std::size_t rows = 2 + numbers.below(2000), columns = 1 + numbers.below(2000);
      model.tensors.push_back({.bytes = 4 * rows * columns, .rows = rows});
    }
    const Dispatch dispatch(model, encoded(plan_of("one", {0, 3}, {}), "one_bit"));
    std::size_t at = 0;
    for (const auto& message : dispatch.messages()) {
      ASSERT_EQ(message.begin, at);
      ASSERT_GT(message.end, message.begin);
      int place = 2;
      while (dispatch.offset(place) > at) --place;
      EXPECT_EQ((at - dispatch.offset(place)) % columns_of(model.sent(place), 4), 0u);
      at = message.end;
    }
    EXPECT_EQ(at, model.bytes() / 4);
  }
}

TEST(Dispatch, PartsTileTheirGroupsAndGroupsTheModel) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SeededNumbers numbers(test::seed(seed));
    const Model model = model_of_random_sizes(numbers);
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

TEST(Dispatch, PrioritiesWithoutAnOrderAndOrdersOfOtherMessagesAreMisuse) {
  const Model model = three_tensors();
  MessagePlan plan = priority(model, {.part_bytes = 200});
  EXPECT_THROW(Dispatch(model, plan), Error);
  for (const std::vector<int>& order : std::vector<std::vector<int>>{
           {0, 0, 1, 1, 2}, {0, 0, 1, 1, 2, 2, 2}, {0, 0, 0, 1, 2, 2}, {0, 0, 1, 1, 2, 3}}) {
    plan.order = order;
    EXPECT_THROW(Dispatch(model, plan), Error);
  }
  plan.order = {2, 0, 1, 0, 2, 1};
  EXPECT_NO_THROW(Dispatch(model, plan));
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

TEST(Dispatch, AGradientThatIsReadyTwiceIsMisuse) {
  Dispatch dispatch(three_tensors(), wait_free(three_tensors()));
  dispatch.ready(0);
  EXPECT_THROW(dispatch.ready(0), Error);
}

constexpr std::size_t kLong = 8 << 20;

TEST(SendingWindow, TwoLongMessagesAreSentAndFourMorePrepared) {
  SendingWindow window;
  for (int message = 0; message < 6; ++message) {
    EXPECT_EQ(window.may_send(), message < 2);
    EXPECT_TRUE(window.may_prepare());
    window.begin(message, kLong);
    EXPECT_EQ(window.may_transfer(message), message < 2);
  }
  EXPECT_FALSE(window.may_prepare());
  window.end(1);
  EXPECT_TRUE(window.may_transfer(2));
  EXPECT_FALSE(window.may_transfer(3));
  EXPECT_TRUE(window.may_prepare());
}

TEST(SendingWindow, ShortMessagesAndThoseThatBecomeShortGoInNumbers) {
  SendingWindow window;
  for (int message = 0; message < 4; ++message) window.begin(message, kLong);
  for (int message = 0; message < 4; ++message) window.shorten(message, 100);
  for (int message = 0; message < 4; ++message) EXPECT_TRUE(window.may_transfer(message));
  for (int message = 4; message < 50; ++message) {
    EXPECT_TRUE(window.may_send());
    window.begin(message, 1000);
  }
}

// So ranks cannot wait for each other, even if each of them has prepared other messages.
TEST(SendingWindow, TheFirstThatIsNotOverIsAlwaysAdmittedAndWhatComesBeforeAnAdmittedOneIsToo) {
  SeededNumbers numbers(test::seed(7));
  SendingWindow window;
  std::vector<int> open;
  for (int next = 0; next < 5000;) {
    const std::uint64_t choice = numbers.below(4);
    if (choice < 2 && window.may_prepare()) {
      window.begin(next, numbers.below(kLong));
      open.push_back(next++);
    } else if (choice == 2 && !open.empty()) {
      window.shorten(open[numbers.below(open.size())], numbers.below(1000));
    } else if (choice == 3 && !open.empty()) {
      const std::size_t at = numbers.below(open.size());
      window.end(open[at]);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
    }
    bool earlier = true;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const bool admitted = window.may_transfer(open[i]);
      EXPECT_TRUE(admitted || i > 0);
      EXPECT_TRUE(earlier || !admitted);
      earlier = admitted;
    }
  }
}

TEST(SendingWindow, AMessageThatHasNotBegunIsMisuse) {
  SendingWindow window;
  window.begin(3, 1);
  EXPECT_THROW(window.may_transfer(4), Error);
  EXPECT_THROW(window.end(4), Error);
}

}  // namespace

}  // namespace paceline::schedule
