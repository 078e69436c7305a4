// A range's value and the weights of its workers.
// Also covers paceline/core/server/machine/range_value_bytes.cpp.
#include "paceline/core/server/machine/range_value.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

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

TableShape softsync_of_three(const char* synchrony) {
  return shape_of({.name = "w",
                   .elements = 1,
                   .dtype = Dtype::f64,
                   .synchrony = synchrony,
                   .rule = "sgd:rate=1"},
                  {{0, 1, 2}, {3}})
      .value();
}

Push gradient_of(int worker, double gradient, double weight, std::uint64_t read) {
  Push push{.facts = {.worker = worker, .sequence = 1, .weight = weight, .read = read},
            .settings = {1, 0, 0, 0, 0},
            .values = std::vector<std::byte>(sizeof(double))};
  std::memcpy(push.values.data(), &gradient, sizeof gradient);
  return push;
}

double only_element(const RangeValue& value) {
  double element = 0;
  std::memcpy(&element, value.view(0).values.data(), sizeof element);
  return element;
}

RangeValue as_read_from_bytes(const RangeValue& value, const TableShape& shape) {
  transport::WireWriter writer;
  value.write(writer);
  const auto bytes = std::move(writer).take();
  transport::WireReader reader(bytes);
  RangeValue copy(shape, 0);
  EXPECT_TRUE(copy.read(reader) && reader.ok_and_empty());
  return copy;
}

TEST(RangeValue, AStepOfSoftsyncIsTheWeightedSumOfPushesByTheirOwnRates) {
  const TableShape shape = softsync_of_three("staleness_aware:softsync=1");
  RangeValue value(shape, 0);
  value.assign(std::vector<std::byte>(sizeof(double)));
  for (int worker = 0; worker < 3; ++worker) value.take(gradient_of(worker, 0, 1, 0));
  ASSERT_EQ(value.facts_for(0, value.view(0)).version, 1u);
  value.take(gradient_of(2, 5, 3, 1));
  value.take(gradient_of(0, 7, 1, 0));
  EXPECT_EQ(only_element(value), 0) << "a push is still to come";
  value.take(gradient_of(1, 11, 2, 1));
  EXPECT_NEAR(only_element(value), -(3 * 5 + 1 * 7 / 2.0 + 2 * 11) / 6, 1e-15);
  EXPECT_EQ(value.facts_for(0, value.view(0)).staleness, 1u);
  EXPECT_EQ(value.facts_for(1, value.view(0)).staleness, 0u);
  EXPECT_EQ(value.facts_for(1, value.view(0)).version, 2u);
}

TEST(RangeValue, PushesThatWaitForOthersAreInItsBytesAlsoThoseOfWorkersThatHaveLeft) {
  const TableShape shape = softsync_of_three("staleness_aware:softsync=1");
  RangeValue value(shape, 0);
  value.assign(std::vector<std::byte>(sizeof(double)));
  value.take(gradient_of(2, 5, 1, 0));
  value.leave(2);
  RangeValue copy = as_read_from_bytes(value, shape);
  for (RangeValue* const one : {&value, &copy}) {
    one->take(gradient_of(0, 7, 1, 0));
    EXPECT_NE(only_element(*one), 0);
  }
  EXPECT_EQ(only_element(copy), only_element(value));
}

double difference_of(RangeValue& value, int worker) {
  double difference = 0;
  std::memcpy(&difference, value.row_for(worker, 1, 0).values.data(), sizeof difference);
  return difference;
}

TEST(RangeValue, AnElasticRangeAnswersWithWhatItWasMovedByAlsoOnAnotherReplica) {
  const TableShape shape = shape_of({.name = "c",
                                     .elements = 1,
                                     .dtype = Dtype::f64,
                                     .synchrony = "elastic:alpha=0.25",
                                     .rule = "add"},
                                    {{0, 1}, {2}})
                               .value();
  RangeValue value(shape, 0);
  value.assign(std::vector<std::byte>(sizeof(double)));
  Push push = gradient_of(0, 8, 1, 0);
  push.settings.clear();
  value.take(push);
  value.join(3);
  RangeValue copy = as_read_from_bytes(value, shape);
  for (RangeValue* const one : {&value, &copy}) {
    EXPECT_EQ(only_element(*one), 2);
    EXPECT_EQ(difference_of(*one, 0), 2);
    EXPECT_EQ(difference_of(*one, 1), 0) << "it has pushed nothing";
    EXPECT_EQ(difference_of(*one, 3), 0) << "it has just come";
    push = gradient_of(1, -6, 1, 0);
    push.settings.clear();
    one->take(push);
    EXPECT_EQ(only_element(*one), 0);
    EXPECT_EQ(difference_of(*one, 1), -2);
    EXPECT_EQ(difference_of(*one, 0), 2) << "of its own last push";
  }
}

// A gradient g that belongs to other values would get g^2 times the difference, by lambda 1.
TEST(RangeValue, AfterAMomentAtWhichAllWereQuietGradientsBelongToItsValues) {
  const TableShape shape = shape_of({.name = "w",
                                     .elements = 1,
                                     .dtype = Dtype::f64,
                                     .synchrony = "dc_asgd:lambda=1",
                                     .rule = "sgd:rate=1"},
                                    {{0, 1}, {2}})
                               .value();
  RangeValue value(shape, 0);
  value.assign(std::vector<std::byte>(sizeof(double)));
  for (const int worker : {0, 1}) value.row_for(worker, 1, 0);
  value.take(gradient_of(0, 4, 1, 0));
  EXPECT_EQ(only_element(value), -2) << "half of all weights";
  RangeValue without_rest = value;
  for (const int worker : {0, 1}) value.quiesce(worker);
  value.wake();
  value.take(gradient_of(1, 6, 1, 0));
  EXPECT_EQ(only_element(value), -2 - 6 / 2.0);
  without_rest.take(gradient_of(1, 6, 1, 0));
  EXPECT_EQ(only_element(without_rest), -2 - (6 + 36 * -2) / 2.0);
}

}  // namespace
}  // namespace paceline::server
