// A share's value, as changes make it.
// Also covers paceline/core/server/sparse/share_value_bytes.cpp.
#include "paceline/core/server/sparse/share_value.h"

#include <gtest/gtest.h>

#include "tests/core/server/sparse/applied_work.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using test::AppliedWork;
using test::SparseWork;

template <typename T>
std::vector<T> applied(const SparseWork& work, const std::string& rule, int servers,
                       int then_on = 0) {
  AppliedWork<T> world(
      work, {.name = "u", .width = work.width, .dtype = dtype_of<T>(), .rule = rule, .seed = 3},
      servers);
  for (int step = 0; step < work.steps; ++step) {
    if (then_on > 0 && 2 * step == work.steps) world.move_to(then_on);
    world.step(step);
  }
  return world.all();
}

template <typename T>
void expect_bits_of_a_dense_table(const std::string& rule) {
  const SparseWork work{.seed = test::seed(3130000), .workers = 5, .steps = 20};
  const SparseShape shape =
      shape_of(
          SparseTableSpec{
              .name = "u", .width = work.width, .dtype = dtype_of<T>(), .rule = rule, .seed = 3},
          TableMembers::of_servers(1, 1))
          .value();
  EXPECT_EQ(applied<T>(work, rule, 2), work.dense<T>(shape)) << rule;
}

TEST(ShareValue, HasTheBitsOfADenseTableUnderRulesThatLeaveUnpushedRowsAlone) {
  for (const char* rule : {"adagrad:rate=0.1", "adagrad:rate=0.1,rate_decay=0.5", "sgd:rate=0.1"}) {
    expect_bits_of_a_dense_table<float>(rule);
    expect_bits_of_a_dense_table<double>(rule);
  }
}

TEST(ShareValue, HasTheSameBitsOnAnyNumberOfServersAndWhenRowsMoveBetweenThem) {
  const SparseWork work{.seed = test::seed(3140000), .steps = 20};
  for (const char* rule : {"adagrad", "adagrad:per=row", "sgd", "adam"}) {
    const auto one = applied<float>(work, rule, 1);
    for (const int servers : {2, 3, 7}) {
      EXPECT_EQ(applied<float>(work, rule, servers), one) << rule << ", " << servers;
      EXPECT_EQ(applied<float>(work, rule, servers, 8 - servers), one) << rule << ", " << servers;
    }
  }
}

TEST(ShareValue, ReadingStoresNothingAndAnUnseenRowIsAlwaysTheSame) {
  const SparseWork work{.seed = test::seed(3150000)};
  AppliedWork<float> world(work, {.name = "u", .width = work.width}, 2);
  const auto first = world.all();
  EXPECT_EQ(world.all(), first);
  EXPECT_EQ(world.stored(), 0u);
  for (int step = 0; step < work.steps; ++step) world.step(step);
  const auto last = world.all();
  EXPECT_GT(world.stored(), 20u);
  EXPECT_LE(world.stored(), SparseWork::kIds - 3);
  EXPECT_TRUE(std::equal(last.end() - 15, last.end(), first.end() - 15)) << "nobody pushes these";
  EXPECT_FALSE(std::equal(last.begin(), last.begin() + 15, first.begin()));
}

// A new server of its chain gets it so, with pushes that are not to be seen yet.
TEST(ShareValue, ComesBackFromItsBytesAndGoesOnWithTheSameBits) {
  const SparseWork work{.seed = test::seed(3750000), .workers = 2};
  const SparseShape shape =
      shape_of(
          SparseTableSpec{
              .name = "u", .width = work.width, .synchrony = "ssp:staleness=1", .rule = "adam"},
          TableMembers::of_servers(2, 1))
          .value();
  const auto push = [&](ShareValue& share, int worker, std::int64_t stamp) {
    const SharedPlan plan = plan_of(work.ids(worker, stamp), shape);
    ShareChange change{.kind = ShareChange::Kind::taken, .worker = worker};
    change.pushes.push_back(
        {.worker = worker,
         .stamp = stamp,
         .weight = work.weight(worker),
         .rate = 0.1,
         .rows = {plan->shares[0].ids,
                  std::vector<std::byte>(plan->shares[0].ids->size() * shape.value_bytes(),
                                         std::byte{0x3c})}});
    share.apply(std::move(change));
  };
  const auto bytes = [](const ShareValue& share) {
    transport::WireWriter writer;
    share.write(writer);
    return writer.bytes();
  };
  ShareValue share(shape), copy(shape);
  for (std::int64_t stamp = 0; stamp < 5; ++stamp) push(share, 0, stamp);
  push(share, 1, 0);
  const auto state = bytes(share);
  transport::WireReader reader(state);
  ASSERT_TRUE(copy.read(reader, 0));
  EXPECT_TRUE(reader.ok_and_empty());
  EXPECT_EQ(bytes(copy), state);
  for (ShareValue* const one : {&share, &copy})
    for (std::int64_t stamp = 1; stamp < 5; ++stamp) push(*one, 1, stamp);
  EXPECT_EQ(bytes(copy), bytes(share));
  EXPECT_GT(share.rows(), 10U);
  for (std::size_t length = 0; length < state.size(); length += 7) {
    transport::WireReader shorter(Bytes(state).first(length));
    EXPECT_FALSE(ShareValue(shape).read(shorter, 0)) << length;
  }
  // The pushes of a worker that leaves wait on for the others' clocks.
  ShareValue left(shape), joined(shape);
  for (std::int64_t stamp = 0; stamp < 5; ++stamp) push(left, 0, stamp);
  push(left, 1, 0);
  left.apply({.kind = ShareChange::Kind::leave, .worker = 0});
  const auto after = bytes(left);
  transport::WireReader rest(after);
  ASSERT_TRUE(joined.read(rest, 0));
  EXPECT_EQ(bytes(joined), after);
  for (ShareValue* const one : {&left, &joined})
    for (std::int64_t stamp = 1; stamp < 5; ++stamp) push(*one, 1, stamp);
  EXPECT_EQ(bytes(joined), bytes(left));
  const auto shown = bytes(left);
  transport::WireReader last(shown);
  EXPECT_TRUE(ShareValue(shape).read(last, 0)) << "its weight counts on";
}

// One number for a row: the mean of the squared gradients of its elements.
TEST(ShareValue, APerRowRuleDividesARowByTheRootOfItsOwnNumber) {
  const SparseShape shape = shape_of(SparseTableSpec{.name = "u",
                                                     .width = 2,
                                                     .dtype = Dtype::f64,
                                                     .rule = "adagrad:per=row,rate=0.5,epsilon=0",
                                                     .spread = 0},
                                     TableMembers::of_servers(1, 1))
                                .value();
  ShareValue share(shape);
  const std::vector<double> gradient = {3, 4};
  for (int step = 0; step < 2; ++step) {
    const Bytes bytes = std::as_bytes(std::span(gradient));
    ShareChange change{.kind = ShareChange::Kind::step, .total = 1};
    change.pushes.push_back(
        {.rate = 0.5,
         .rows = {std::make_shared<const IdList>(IdList{9}), {bytes.begin(), bytes.end()}}});
    share.apply(std::move(change));
  }
  std::vector<double> row(2);
  share.read(std::vector<std::uint64_t>{9}, reinterpret_cast<std::byte*>(row.data()));
  EXPECT_DOUBLE_EQ(row[0], -0.5 * 3 / std::sqrt(12.5) - 0.5 * 3 / 5);
  EXPECT_DOUBLE_EQ(row[1], -0.5 * 4 / std::sqrt(12.5) - 0.5 * 4 / 5);
}

}  // namespace
}  // namespace paceline::server
