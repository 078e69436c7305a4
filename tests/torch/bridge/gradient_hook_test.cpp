#include "paceline/torch/bridge/gradient_hook.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline {
namespace {

at::Tensor leaf(std::initializer_list<double> values) {
  return torch::tensor(std::vector<double>(values), at::kDouble).set_requires_grad(true);
}

TEST(GradientHook, TellsOfAGradientAfterItWasAccumulated) {
  const at::Tensor p = leaf({1, 2});
  std::vector<double> seen;
  GradientHook hook(
      p, {[] { return true; }, [&](bool) { seen.push_back(p.grad()[1].item<double>()); }});
  (p * 3).sum().backward();
  (p * 4).sum().backward();
  EXPECT_EQ(seen, (std::vector<double>{3, 7}));
}

TEST(GradientHook, AParameterUsedTwiceFiresOnceAfterBoth) {
  const at::Tensor p = leaf({1, 2});
  int fired = 0;
  GradientHook hook(p, {[] { return true; }, [&](bool) { ++fired; }});
  ((p * 3).sum() + (p * p).sum()).backward();
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(p.grad()[1].item<double>(), 7);
}

TEST(GradientHook, ARefusedGradientLeavesGradAlone) {
  const at::Tensor p = leaf({1, 2});
  bool accept = false;
  int accumulated = 0;
  GradientHook hook(p, {[&] { return accept; }, [&](bool) { ++accumulated; }});
  (p * 3).sum().backward();
  EXPECT_FALSE(p.grad().defined());
  EXPECT_EQ(accumulated, 0);
  accept = true;
  (p * 3).sum().backward();
  EXPECT_EQ(accumulated, 1);
  EXPECT_EQ(p.grad()[0].item<double>(), 3);
}

TEST(GradientHook, ExceptionsComeOutOfBackwardWithTheirType) {
  const at::Tensor p = leaf({1, 2});
  for (const bool early : {true, false}) {
    GradientHook hook(p, {[&] { return early ? throw_misuse("early") : void(), true; },
                          [](bool) { throw_misuse("late"); }});
    try {
      (p * 3).sum().backward();
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), early ? "early" : "late");
    }
  }
}

TEST(GradientHook, RunsOnTheThreadThatCalledBackward) {
  const at::Tensor p = leaf({1});
  std::thread::id where;
  GradientHook hook(p, {[] { return true; }, [&](bool) { where = std::this_thread::get_id(); }});
  std::thread([&] {
    (p * 2).sum().backward();
    EXPECT_EQ(where, std::this_thread::get_id());
  }).join();
}

TEST(GradientHook, EachBackwardHasItsOwnNumber) {
  const at::Tensor p = leaf({1}), q = leaf({1});
  std::vector<int> numbers;
  GradientHook a(p, {[] { return true; }, [&](bool) { numbers.push_back(current_backward()); }});
  GradientHook b(q, {[] { return true; }, [&](bool) { numbers.push_back(current_backward()); }});
  (p * q).sum().backward();
  (p * q).sum().backward();
  ASSERT_EQ(numbers.size(), 4u);
  EXPECT_EQ(numbers[0], numbers[1]);
  EXPECT_EQ(numbers[2], numbers[3]);
  EXPECT_NE(numbers[0], numbers[2]);
}

TEST(GradientHook, TellsABackwardThatBuildsAGraph) {
  const at::Tensor p = leaf({1});
  bool builds = false;
  GradientHook hook(p, {[&] { return builds = backward_builds_graph(), true; }, [](bool) {}});
  (p * p).sum().backward();
  EXPECT_FALSE(builds);
  (p * p).sum().backward({}, true, true);
  EXPECT_TRUE(builds);
  p.mutable_grad().reset();
}

TEST(GradientHook, IsSilentOnceItIsGoneAndOthersStay) {
  const at::Tensor p = leaf({1});
  int first = 0, second = 0;
  const at::Tensor loss = (p * 2).sum();  // a graph that holds the node while hooks come and go
  auto a = std::make_unique<GradientHook>(
      p, GradientEvents{[] { return true; }, [&](bool) { ++first; }});
  const GradientHook b(p, {[] { return true; }, [&](bool) { ++second; }});
  a.reset();
  loss.backward();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

TEST(GradientHook, OnlyLeavesThatRequireAGradientCanBeWatched) {
  const GradientEvents events{[] { return true; }, [](bool) {}};
  EXPECT_THROW(GradientHook(at::zeros({2}), events), Error);
  EXPECT_THROW(GradientHook(leaf({1}) * 2, events), Error);
  EXPECT_THROW(GradientHook(at::Tensor(), events), Error);
}

}  // namespace
}  // namespace paceline
