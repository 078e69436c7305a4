#include "paceline/core/schedule/order/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "paceline/core/base/result.h"
#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::schedule {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::vector<Bucket> plan_in_reverse(const std::vector<Gradient>& gradients,
                                    const BucketCaps& caps = {}) {
  return plan_buckets(gradients, reverse_registration_order(static_cast<int>(gradients.size())),
                      caps);
}

std::vector<std::vector<int>> members(const std::vector<Bucket>& plan) {
  std::vector<std::vector<int>> result;
  for (const Bucket& bucket : plan) result.push_back(bucket.gradients);
  return result;
}

using Lists = std::vector<std::vector<int>>;

TEST(Buckets, NoGradientsNeedNoBucket) {
  EXPECT_TRUE(plan_in_reverse({}).empty());
}

TEST(Buckets, TheMlpOfTheExampleTravelsInTwoBuckets) {
  // 784-1024-1024-10 in f32: weight, bias of three layers.
  const std::vector<Gradient> mlp = {{784 * 1024 * 4}, {1024 * 4},  {1024 * 1024 * 4},
                                     {1024 * 4},       {10240 * 4}, {10 * 4}};
  EXPECT_EQ(members(plan_in_reverse(mlp)), (Lists{{5, 4, 3}, {2, 1, 0}}));
}

TEST(Buckets, AGradientLargerThanTheCapStandsAlone) {
  const std::vector<Gradient> gradients = {{10}, {30 * kMiB}, {10}, {10}};
  EXPECT_EQ(members(plan_in_reverse(gradients)), (Lists{{3, 2}, {1}, {0}}));
}

TEST(Buckets, ALargeFirstGradientUsesUpTheSmallCap) {
  const std::vector<Gradient> gradients = {{3 * kMiB}, {3 * kMiB}, {2 * kMiB}};
  EXPECT_EQ(members(plan_in_reverse(gradients)), (Lists{{2}, {1, 0}}));
}

TEST(Buckets, ABucketMayBeFilledToItsCapExactly) {
  const std::vector<Gradient> gradients = {{5 * kMiB}, {3 * kMiB}, {kMiB / 2}, {kMiB / 2}};
  EXPECT_EQ(members(plan_in_reverse(gradients)), (Lists{{3, 2}, {1, 0}}));
}

TEST(Buckets, DtypesAndDevicesDoNotMixAndOnlyOneBucketIsSmall) {
  const Gradient f64{kMiB, Dtype::f64, 0}, f32{kMiB, Dtype::f32, 0}, other{kMiB, Dtype::f32, 1};
  const std::vector<Gradient> gradients = {f32, f64, other, f32, f64, f32};
  // 5 opens the small bucket, 3 closes it; the f64 bucket and device 1 have the large cap.
  const auto plan = plan_in_reverse(gradients);
  EXPECT_EQ(members(plan), (Lists{{5}, {2}, {4, 1}, {3, 0}}));
  EXPECT_EQ(plan[1].device, 1);
  EXPECT_EQ(plan[2].dtype, Dtype::f64);
}

TEST(Buckets, EmptyGradientsTravelWithTheOthers) {
  const std::vector<Gradient> gradients = {{0}, {4}, {0}};
  EXPECT_EQ(members(plan_in_reverse(gradients)), (Lists{{2, 1, 0}}));
}

TEST(Buckets, AnObservedOrderIsCompletedByWhatDidNotFire) {
  EXPECT_EQ(completed_order(std::vector<int>{2, 0}, 5), (std::vector<int>{2, 0, 4, 3, 1}));
  EXPECT_THROW(completed_order(std::vector<int>{2, 2}, 5), Error);
  EXPECT_THROW(completed_order(std::vector<int>{5}, 5), Error);
}

TEST(Buckets, AnOrderThatIsNoPermutationIsRefused) {
  const std::vector<Gradient> gradients = {{1}, {1}};
  EXPECT_THROW(plan_buckets(gradients, std::vector<int>{0}), Error);
  EXPECT_THROW(plan_buckets(gradients, std::vector<int>{0, 0}), Error);
  EXPECT_THROW(plan_buckets(gradients, std::vector<int>{0, 2}), Error);
}

TEST(Buckets, LawsHoldForRandomModelsAndOrders) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    SeededNumbers numbers(test::seed(seed));
    const int count = static_cast<int>(numbers.below(40));
    const BucketCaps caps{1 + numbers.below(200), 1 + numbers.below(2000)};
    std::vector<Gradient> gradients;
    for (int i = 0; i < count; ++i) {
      gradients.push_back({numbers.below(numbers.below(4) == 0 ? 3000 : 100),
                           numbers.below(2) == 0 ? Dtype::f32 : Dtype::f64,
                           static_cast<int>(numbers.below(2))});
    }
    std::vector<int> order = reverse_registration_order(count);
    if (seed % 2 == 1) std::shuffle(order.begin(), order.end(), numbers);
    std::vector<std::size_t> place(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) place[static_cast<std::size_t>(order[i])] = i;

    const auto plan = plan_buckets(gradients, order, caps);
    EXPECT_EQ(plan, plan_buckets(gradients, order, caps));
    std::set<int> seen;
    std::size_t last_completed = 0;
    std::map<std::pair<Dtype, int>, std::vector<int>> by_kind;
    for (std::size_t b = 0; b < plan.size(); ++b) {
      const Bucket& bucket = plan[b];
      ASSERT_FALSE(bucket.gradients.empty());
      std::size_t bytes = 0, last = 0;
      for (int index : bucket.gradients) {
        const Gradient& gradient = gradients[static_cast<std::size_t>(index)];
        EXPECT_TRUE(seen.insert(index).second) << "gradient " << index << " travels twice";
        EXPECT_EQ(gradient.dtype, bucket.dtype);
        EXPECT_EQ(gradient.device, bucket.device);
        bytes += gradient.bytes;
        last = std::max(last, place[static_cast<std::size_t>(index)]);
        by_kind[{bucket.dtype, bucket.device}].push_back(index);
      }
      EXPECT_EQ(bytes, bucket.bytes);
      const bool first = std::find(bucket.gradients.begin(), bucket.gradients.end(), order[0]) !=
                         bucket.gradients.end();
      if (bytes > (first ? caps.first_bytes : caps.bytes)) {
        EXPECT_EQ(bucket.gradients.size(), 1u);
      }
      if (b > 0) {
        EXPECT_GT(last, last_completed);
      }
      last_completed = last;
    }
    EXPECT_EQ(seen.size(), gradients.size());
    for (const auto& [kind, indices] : by_kind) {
      EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end(), [&](int a, int b) {
        return place[static_cast<std::size_t>(a)] < place[static_cast<std::size_t>(b)];
      }));
    }
  }
}

}  // namespace
}  // namespace paceline::schedule
