#include "paceline/core/collective/carrier/carrier.h"

#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

struct Weighted {
  Weighted(const std::vector<double>& weights, std::vector<float> values)
      : input(std::move(values)),
        output(input.size(), -1),
        record(static_cast<int>(weights.size())) {
    request.call = {.operation = Operation::all_reduce,
                    .op = ReduceOp::average,
                    .dtype = Dtype::f32,
                    .weighted = true,
                    .count = input.size()};
    request.input = {reinterpret_cast<const std::byte*>(input.data()), input.size(), Dtype::f32};
    request.output = {reinterpret_cast<std::byte*>(output.data()), output.size(), Dtype::f32};
    request.scale_input = true;
    for (std::size_t rank = 0; rank < weights.size(); ++rank) {
      request.call.weight = weights[rank];
      record.enter(static_cast<int>(rank), request.call);
    }
  }

  std::vector<float> input, output;
  Request request;
  CallRecord record;
};

TEST(ScaleInput, GoesOnWithTheOutputAndLeavesTheInputAsItWas) {
  Weighted own({3, 1}, {1, 2, 5});
  scale_input(own.request, own.record, 0);
  EXPECT_EQ(own.output, (std::vector<float>{3, 6, 15}));
  EXPECT_EQ(own.input, (std::vector<float>{1, 2, 5}));
  EXPECT_EQ(own.request.input.data, own.request.output.data);
  EXPECT_FALSE(own.request.scale_input);
}

TEST(ScaleInput, OfEqualWeightsTouchesNothing) {
  Weighted own({2, 2}, {1, 2});
  scale_input(own.request, own.record, 1);
  EXPECT_EQ(own.output, (std::vector<float>{-1, -1}));
  EXPECT_NE(own.request.input.data, own.request.output.data);
  EXPECT_FALSE(own.request.scale_input);
}

TEST(Carriers, AFrameThatNobodyExpectsNamesItsSender) {
  const auto generation = std::make_shared<membership::Generation>(
      membership::GenerationIdentity{.rank = 0, .size = 3});
  const Members members(generation, {0, 1, 2});
  const Failure failure =
      unexpected(members, 2, {.sequence = 7, .index = 4}, "which a board carries");
  EXPECT_EQ(failure.ranks, std::vector{2});
  EXPECT_EQ(failure.what,
            "rank 2 sent message 4 of operation 7, which a board carries: a bug, please report it");
}

}  // namespace
}  // namespace paceline::collective
