// A range's value and the weights of its workers.
#include "paceline/core/server/machine/range_value.h"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

constexpr std::size_t kElements = 4;

Push push_of(int worker, std::int64_t stamp, double weight) {
  return {.facts = {.worker = worker,
                    .sequence = static_cast<std::uint64_t>(stamp + 1),
                    .stamp = stamp,
                    .weight = weight},
          .values = std::vector<std::byte>(kElements * sizeof(float))};
}

// Worker 0 is quick: it pushes its step 1 before worker 1 has read the values of step 0.
TEST(RangeValue, AReaderIsToldTheWeightsOfTheStepsThatItSeesWhoeverIsAhead) {
  const TableShape shape = shape_of({.name = "w",
                                     .elements = kElements,
                                     .synchrony = "ssp:staleness=0,update=worker",
                                     .rule = "add"},
                                    {{0, 1}, {2}})
                               .value();
  for (const bool is_ahead : {false, true}) {
    RangeValue value(shape, 0);
    value.assign(std::vector<std::byte>(kElements * sizeof(float)));
    value.join(0);
    value.join(1);
    value.take(push_of(0, 0, 3));
    value.take(push_of(1, 0, 5));
    if (is_ahead) value.take(push_of(0, 1, 70));
    EXPECT_EQ(value.facts_for(1, value.view(1)).weight, 3 + 5);
    // A worker knows its own weight, also before its update is shown.
    EXPECT_EQ(value.facts_for(0, value.view(1)).weight, is_ahead ? 70 + 5 : 3 + 5);
  }
}

}  // namespace
}  // namespace paceline::server
