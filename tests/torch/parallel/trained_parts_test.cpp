#include "paceline/torch/parallel/trained_parts.h"

#include <cmath>
#include <limits>

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// The refusal of a DataParallel that is made with these options, under a synchrony of each kind.
void expect_refused(const std::function<void(DataParallelOptions&)>& set, const char* told) {
  for (const char* synchrony : {"synchronous", "local_sgd", "robust", "async_gossip"}) {
    run_ranks(1, [&](Job& job) {
      Net net(at::kFloat);
      DataParallelOptions options{.synchrony = synchrony};
      set(options);
      EXPECT_THAT(misuse_of([&] { DataParallel(net, job, options); }), HasSubstr(told))
          << synchrony;
    });
  }
}

TEST(OptionRanges, NumbersOutOfTheirRangeAreRefusedWithOptionValueAndRange) {
  expect_refused([](auto& o) { o.backward_passes_per_step = 0; },
                 "DataParallelOptions::backward_passes_per_step is 0; it is a number of backward "
                 "passes, at least 1");
  expect_refused([](auto& o) { o.backward_passes_per_step = -2; },
                 "backward_passes_per_step is -2; it is");
  expect_refused([](auto& o) { o.check_replicas_every = -5; },
                 "check_replicas_every is -5; it is a number of steps, or 0 for no check");
  expect_refused([](auto& o) { o.zero_prefetch = -1; },
                 "zero_prefetch is -1; it is a number of units, 0 for none");
  expect_refused([](auto& o) { o.zero_stage = 4; }, "zero_stage is 4; it is 0");
  expect_refused([](auto& o) { o.max_grad_norm = -1; }, "max_grad_norm is -1; it is a norm");
  expect_refused([](auto& o) { o.max_grad_norm = std::nan(""); }, "max_grad_norm is nan; it is");
  expect_refused([](auto& o) { o.max_grad_norm = std::numeric_limits<double>::infinity(); },
                 "max_grad_norm is inf; it is");
}

// The model keeps its types: o2 would turn it into 16 bits.
TEST(OptionRanges, AreLookedAtBeforeAnythingChanges) {
  run_ranks(1, [](Job& job) {
    Net net(at::kFloat);
    misuse_of([&] { DataParallel(net, job, {.check_replicas_every = -1, .precision = "o2"}); });
    EXPECT_EQ(net.first->weight.scalar_type(), at::kFloat);
  });
}

}  // namespace
}  // namespace paceline
