#include "paceline/torch/gradient/gradient_buckets.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <vector>

#include "paceline/core/job/local_world.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::gradient {
namespace {

std::vector<at::Tensor> parameters() {
  const auto f64 = at::TensorOptions().dtype(at::kDouble);
  return {at::rand({3}, f64), at::rand({5, 7}, f64).t(), at::rand({2, 2}, f64)};
}

// The group of a rank that has no peers.
const Communicator& alone() {
  static std::vector<Job> world = make_local_world(1);
  return world.front().world();
}

GradientBuckets one_bucket(std::span<const at::Tensor> tensors) {
  std::vector<schedule::Gradient> shapes;
  for (const auto& tensor : tensors) shapes.push_back({tensor.nbytes(), Dtype::f64, 0});
  return {schedule::plan_buckets(
              shapes, schedule::reverse_registration_order(static_cast<int>(shapes.size()))),
          tensors, tensors, alone()};
}

std::uintptr_t address_of(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
}

TEST(GradientBuckets, SlotsAreAlignedDisjointAndInTheOrderOfThePlan) {
  const auto tensors = parameters();
  const GradientBuckets buckets = one_bucket(tensors);
  const auto start = reinterpret_cast<std::uintptr_t>(buckets.buffer(0).data);
  std::uintptr_t at = start;
  for (int index : buckets.plan()[0].gradients) {
    const at::Tensor& slot = buckets.slot(static_cast<std::size_t>(index));
    const at::Tensor& parameter = tensors[static_cast<std::size_t>(index)];
    EXPECT_EQ((address_of(slot) - start) % 64, 0U);
    EXPECT_GE(address_of(slot), at);
    EXPECT_EQ(slot.sizes(), parameter.sizes());
    EXPECT_EQ(slot.strides(), parameter.strides());
    at = address_of(slot) + slot.nbytes();
  }
  EXPECT_LE(at, start + buckets.buffer(0).size_bytes());
}

TEST(GradientBuckets, TakingKeepsTheValuesAndMakesTheSlotTheGrad) {
  auto tensors = parameters();
  GradientBuckets buckets = one_bucket(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor values = at::rand(tensors[i].sizes(), at::kDouble);
    tensors[i].mutable_grad() = values.clone();
    EXPECT_FALSE(buckets.take(i, false));
    EXPECT_TRUE(is_same_memory(tensors[i].grad(), buckets.slot(i)));
    EXPECT_TRUE(at::equal(tensors[i].grad(), values));
  }
}

// A gradient that was born in its slot's memory, but laid out another way.
TEST(GradientBuckets, AGradOfAnotherLayoutInTheSlotsMemoryIsLaidOutAnew) {
  auto tensors = parameters();
  GradientBuckets buckets = one_bucket(tensors);
  const auto lent = buckets.lend(1);
  const at::Tensor born = at::from_blob(lent.get(), tensors[1].sizes(),
                                        at::kDouble);  // rows, where the slot has columns
  const at::Tensor values = at::rand(tensors[1].sizes(), at::kDouble);
  born.copy_(values);
  tensors[1].mutable_grad() = born;
  EXPECT_FALSE(buckets.take(1, false));
  EXPECT_TRUE(is_same_memory(tensors[1].grad(), buckets.slot(1)));
  EXPECT_TRUE(at::equal(tensors[1].grad(), values));
}

TEST(GradientBuckets, WhatSomebodyElseHoldsIsLeftToHimAndNeverLentAgain) {
  for (const bool it_is_the_gradient : {true, false}) {
    auto tensors = parameters();
    GradientBuckets buckets = one_bucket(tensors);
    const at::Tensor others = at::rand(tensors[0].sizes(), at::kDouble);
    tensors[0].mutable_grad() = others.clone();
    buckets.take(0, false);  // came before

    auto lent = buckets.lend(2);
    at::Tensor held = at::from_blob(
        lent.get(), tensors[2].sizes(), [lent](void*) {}, at::kDouble);
    lent.reset();
    held.fill_(7);
    tensors[2].mutable_grad() = it_is_the_gradient ? held.detach() : at::full_like(held, 7);
    EXPECT_TRUE(buckets.take(2, it_is_the_gradient));
    EXPECT_FALSE(held.is_alias_of(buckets.slot(2)));
    buckets.slot(2).zero_();
    EXPECT_EQ(held.sum().item<double>(), 28);
    EXPECT_TRUE(is_same_memory(tensors[0].grad(), buckets.slot(0))) << "moved with its bucket";
    EXPECT_TRUE(at::equal(tensors[0].grad(), others));
    EXPECT_TRUE(buckets.contains(tensors[0].grad().const_data_ptr()));
    EXPECT_EQ(buckets.lend(2), nullptr);
    EXPECT_NE(buckets.lend(0), nullptr);
  }
}

TEST(GradientBuckets, ASlotThatOtherCodeKeepsIsKnownAndNotLent) {
  auto tensors = parameters();
  GradientBuckets buckets = one_bucket(tensors);
  tensors[0].mutable_grad() = at::ones_like(tensors[0]);
  buckets.take(0, false);
  for (const auto& keep : std::vector<std::function<at::Tensor()>>{
           [&] { return tensors[0].grad(); }, [&] { return tensors[0].grad().detach(); },
           [&] { return tensors[0].grad().slice(0, 0, 1); }}) {
    EXPECT_FALSE(buckets.is_kept_elsewhere(0));
    const at::Tensor kept = keep();
    EXPECT_FALSE(buckets.is_kept_elsewhere(0)) << "while it is the grad";
    tensors[0].mutable_grad().reset();
    EXPECT_TRUE(buckets.is_kept_elsewhere(0));
    EXPECT_EQ(buckets.lend(0), nullptr);
    EXPECT_FALSE(buckets.is_kept_elsewhere(1));
    buckets.move_elsewhere(0);
    EXPECT_FALSE(buckets.is_kept_elsewhere(0));
    EXPECT_FALSE(kept.is_alias_of(buckets.slot(0)));
    EXPECT_TRUE(kept.eq(1).all().item<bool>());
    tensors[0].mutable_grad() = at::ones_like(tensors[0]);
    buckets.take(0, false);
  }
}

TEST(GradientBuckets, NothingIsLentTwiceAtATime) {
  const auto tensors = parameters();
  GradientBuckets buckets = one_bucket(tensors);
  auto lent = buckets.lend(0);
  EXPECT_EQ(lent.get(), buckets.slot(0).const_data_ptr());
  EXPECT_EQ(buckets.lend(0), nullptr);
  lent.reset();
  EXPECT_NE(buckets.lend(0), nullptr);
}

}  // namespace
}  // namespace paceline::gradient
