#include "paceline/core/compress/kernels/spare_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/compress/averaging/gathered_average.h"
#include "paceline/core/compress/codecs/top_k.h"

namespace paceline::compress {
namespace {

TEST(SpareMemory, WhatWasGivenIsTakenByWhoeverNeedsAboutAsMuch) {
  SpareMemory spares;
  auto memory = spares.take(500'000);
  const float* const place = memory.get();
  spares.give(std::move(memory), 500'000);
  EXPECT_EQ(spares.take(495'000).get(), place);
  EXPECT_EQ(spares.allocated(), 1U);
}

TEST(SpareMemory, WhatIsTakenHasRoom) {
  SpareMemory spares;
  for (std::size_t given = 1; given < 100; ++given) {
    for (std::size_t count = 1; count < 100; ++count) {
      spares.give(std::make_unique<float[]>(given + given / 8), given);
      spares.take(count)[count - 1] = 1;  // as the address sanitizer sees
    }
  }
}

// One spare place goes from tensor to tensor, for any number of steps.
TEST(SpareMemory, ResidualsOfManyTensorsNeedOnePlaceMoreThanThereAreTensors) {
  constexpr int kTensors = 7;
  const auto spares = std::make_shared<SpareMemory>();
  std::vector<std::unique_ptr<Averaging>> all;
  std::vector<std::vector<float>> gradients;
  for (std::uint32_t tensor = 0; tensor < kTensors; ++tensor) {
    const std::size_t columns = 10'000 - tensor;
    all.push_back(gathered_average({.tensor = tensor, .columns = columns, .spares = spares},
                                   top_k_codec(.01)));
    gradients.emplace_back(columns, 1.0F);
  }
  for (std::uint32_t step = 0; step < 5; ++step) {
    for (std::size_t tensor = 0; tensor < kTensors; ++tensor) {
      auto exchange = all[tensor]->begin(gradients[tensor], step);
      while (exchange) exchange = all[tensor]->next().value();
      all[tensor]->finish().value();
    }
  }
  EXPECT_EQ(spares->allocated(), kTensors + 1U);
}

}  // namespace
}  // namespace paceline::compress
