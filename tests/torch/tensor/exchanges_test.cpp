#include "paceline/torch/tensor/exchanges.h"

#include "tests/torch/tensor/small_layers.h"

namespace paceline::tensor_test {
namespace {

// A hook of a parameter may throw while the gradients of activations are being added up.
TEST(BeginSum, ASumThatNobodyWaitsForIsWrittenNowhereElse) {
  for (const bool is_sequence_parallel : {false, true}) {
    expect_to_write_nowhere_else({16, 64}, [&](Communicator& group) {
      tensor::LayerPlace place;
      place.region = std::make_shared<tensor::Region>();
      place.region->group = &group;
      place.region->is_sequence_parallel = is_sequence_parallel;
      const std::int64_t rows = is_sequence_parallel ? 32 : 16;
      (void)tensor::begin_sum(numbers(1, {rows, 64}), place);
    });
  }
}

}  // namespace
}  // namespace paceline::tensor_test
