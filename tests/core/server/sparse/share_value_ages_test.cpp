// Rows that are stored only after some pushes, and rows that go because nobody has pushed them for
// long.
// Also covers paceline/core/server/sparse/share_value_ages.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/core/server/sparse/applied_work.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using test::AppliedWork;
using test::SparseWork;

// The same in one loop over maps, by the words of the documentation.
template <typename T>
class RowsByTheBook {
 public:
  RowsByTheBook(const SparseWork& work, const SparseTableSpec& spec)
      : work_(work), shape_(shape_of(spec, TableMembers::of_servers(1, 1)).value()) {}

  void step(std::int64_t number) {
    const std::vector<T> mean = work_.dense_mean(number, all());
    std::map<std::uint64_t, int> pushes;
    for (int worker = 0; worker < work_.workers; ++worker) {
      const auto ids = work_.ids(worker, number);
      for (const std::int64_t id : std::set(ids.begin(), ids.end()))
        ++pushes[static_cast<std::uint64_t>(id)];
    }
    std::erase_if(rows_, [this](const auto& one) { return is_past(one.second.last); });
    std::erase_if(counts_, [this](const auto& one) { return is_past(one.second.last); });
    ++steps_;
    for (const auto& [id, times] : pushes)
      if (admits(id, times)) move(id, mean.data() + id * work_.width);
  }
  std::vector<T> all() const {
    std::vector<T> values(SparseWork::kIds * work_.width);
    for (std::uint64_t id = 0; id < SparseWork::kIds; ++id) {
      T* const row = values.data() + id * work_.width;
      const auto found = rows_.find(id);
      if (found != rows_.end() && !is_past(found->second.last))
        std::ranges::copy(found->second.values, row);
      else begin_row(shape_, id, reinterpret_cast<std::byte*>(row));
    }
    return values;
  }

 private:
  struct Row {
    std::vector<T> values, state;
    std::int64_t last = 0;
  };
  struct Count {
    int pushes = 0;
    std::int64_t last = 0;
  };
  bool is_past(std::int64_t last) const {
    return shape_.spec.evict_after > 0 && steps_ - last >= shape_.spec.evict_after;
  }
  bool admits(std::uint64_t id, int times) {
    if (rows_.contains(id)) return true;
    Count& count = counts_[id];
    count = {count.pushes + times, steps_};
    if (count.pushes < shape_.spec.admit_after) return false;
    counts_.erase(id);
    return true;
  }
  void move(std::uint64_t id, const T* mean) {
    const auto [found, is_new] = rows_.try_emplace(id);
    Row& row = found->second;
    if (is_new) {
      row.values.resize(work_.width);
      begin_row(shape_, id, reinterpret_cast<std::byte*>(row.values.data()));
      row.state.resize(shape_.rule.state_elements(work_.width));
    }
    row.last = steps_;
    std::vector<std::byte*> slots;
    for (int slot = 0; slot < shape_.rule.slots; ++slot)
      slots.push_back(reinterpret_cast<std::byte*>(row.state.data() +
                                                   static_cast<std::size_t>(slot) *
                                                       shape_.rule.slot_elements(work_.width)));
    shape_.rule.step({.dtype = dtype_of<T>(),
                      .count = work_.width,
                      .value = reinterpret_cast<std::byte*>(row.values.data()),
                      .gradient = reinterpret_cast<const std::byte*>(mean),
                      .slots = slots,
                      .number = steps_,
                      .settings = shape_.settings});
  }

  const SparseWork work_;
  const SparseShape shape_;
  std::map<std::uint64_t, Row> rows_;
  std::map<std::uint64_t, Count> counts_;
  std::int64_t steps_ = 0;
};

template <typename T>
SparseTableSpec aging_spec(const SparseWork& work, const std::string& rule, int admit_after,
                           std::int64_t evict_after) {
  return {.name = "u",
          .width = work.width,
          .dtype = dtype_of<T>(),
          .rule = rule,
          .seed = 3,
          .admit_after = admit_after,
          .evict_after = evict_after};
}

struct Ages {
  int admit_after = 0;
  std::int64_t evict_after = 0;
};
constexpr Ages kAges[] = {{2, 0}, {7, 0}, {0, 1}, {1, 4}, {3, 2}, {5, 6}, {40, 3}};

// Rows move to other servers at half of the steps where nothing is counted, for counts do not.
template <typename T>
void expect_rows_by_the_book(const std::string& rule, const Ages& ages) {
  const SparseWork work{.seed = test::seed(4110000), .workers = 3, .steps = 30};
  const auto spec = aging_spec<T>(work, rule, ages.admit_after, ages.evict_after);
  for (const int servers : {1, 2, 3, 7}) {
    RowsByTheBook<T> book(work, spec);
    AppliedWork<T> world(work, spec, servers);
    std::uint64_t evicted = 0, counted = 0;
    for (int step = 0; step < work.steps; ++step) {
      if (2 * step == work.steps && ages.admit_after < 2) world.move_to(8 - servers);
      if (step % 7 == 5) {
        ASSERT_TRUE(world.reread());
      }
      book.step(step);
      world.step(step);
      ASSERT_EQ(world.all(), book.all())
          << rule << ", " << servers << " servers, step " << step << ", admit_after "
          << ages.admit_after << ", evict_after " << ages.evict_after;
      for (const ShareValue& share : world.shares()) {
        evicted += share.evicted();
        counted += share.counted();
      }
    }
    EXPECT_EQ(evicted > 0, ages.evict_after > 0 && ages.admit_after < 40);
    EXPECT_EQ(counted > 0, ages.admit_after > 1);
  }
}

TEST(ShareValueAges, RowsComeAndGoByTheBookOnAnyNumberOfServers) {
  for (const char* const rule : {"adagrad:rate=0.1", "adagrad:per=row", "adam", "sgd:rate=0.1"})
    for (const Ages& ages : kAges) {
      expect_rows_by_the_book<float>(rule, ages);
      expect_rows_by_the_book<double>(rule, ages);
    }
}

TEST(ShareValueAges, ATableThatAdmitsAtOnceAndNeverEvictsHasTheBytesOfOneWithoutThese) {
  const SparseWork work{.seed = test::seed(4120000), .steps = 15};
  const auto bytes_with = [&](int admit_after) {
    AppliedWork<float> world(work, aging_spec<float>(work, "adagrad", admit_after, 0), 2);
    for (int step = 0; step < work.steps; ++step) world.step(step);
    transport::WireWriter writer;
    for (const ShareValue& share : world.shares()) share.write(writer);
    return writer.bytes();
  };
  EXPECT_EQ(bytes_with(0), bytes_with(1));
  EXPECT_NE(bytes_with(0), bytes_with(2));
  const auto shape =
      shape_of(aging_spec<float>(work, "adagrad", 2, 0), TableMembers::of_servers(1, 1)).value();
  EXPECT_EQ(shape.state_bytes(), shape.value_bytes()) << "no bytes for a stamp";
}

// A step that pushes these ids by one worker, or nothing.
void push_alone(ShareValue& share, const SparseShape& shape, const IdList& ids) {
  ShareChange change{.kind = ShareChange::Kind::step, .total = 1};
  change.pushes.push_back({.rate = 0.1,
                           .rows = {std::make_shared<const IdList>(ids),
                                    std::vector<std::byte>(ids.size() * shape.value_bytes())}});
  share.apply(std::move(change));
}

TEST(ShareValueAges, TheSweepGivesBackAllThatIsPastItsAgeAndNoStepDoesMuchOfIt) {
  constexpr std::int64_t kSteps = 5;
  for (const int admit_after : {1, 2}) {
    const SparseShape shape = shape_of(SparseTableSpec{.name = "u",
                                                       .width = 2,
                                                       .rule = "sgd",
                                                       .admit_after = admit_after,
                                                       .evict_after = kSteps},
                                       TableMembers::of_servers(1, 1))
                                  .value();
    ShareValue share(shape);
    const auto held = [&] { return share.rows() + share.counted(); };
    const std::size_t empty = share.memory();
    IdList ids(150'000);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = 3 * i;
    push_alone(share, shape, ids);
    EXPECT_EQ(held(), ids.size());
    for (std::int64_t step = 1; step < kSteps; ++step) push_alone(share, shape, {});
    EXPECT_EQ(held(), ids.size()) << "a row lives so many steps";
    std::size_t before = held(), steps = 0;
    for (; held() > 0 && steps < 100; ++steps, before = held()) {
      push_alone(share, shape, {});
      EXPECT_LE(before - held(), 16'384U);
    }
    EXPECT_EQ(held(), 0U);
    EXPECT_LT(steps, 30U);
    EXPECT_EQ(share.evicted(), admit_after == 1 ? ids.size() : 0U);
    EXPECT_LT(share.memory(), empty + 64 * (3U << 20))
        << "a chunk of each arc stays, and its index";
  }
}

// Rows that come back from a checkpoint are stored, whatever was counted of them before.
TEST(ShareValueAges, ARowThatIsPutBackIsAdmittedWithItsAge) {
  const SparseShape shape = shape_of(SparseTableSpec{.name = "u",
                                                     .width = 1,
                                                     .rule = "sgd:rate=1",
                                                     .spread = 0,
                                                     .admit_after = 3,
                                                     .evict_after = 4},
                                     TableMembers::of_servers(1, 1))
                                .value();
  ShareValue share(shape);
  push_alone(share, shape, {9});
  EXPECT_EQ(share.counted(), 1U);
  const float value = 0.5F;
  const std::uint32_t pushed_last = 10;
  ShareChange change{.kind = ShareChange::Kind::store, .rule_steps = 12};
  std::vector<std::byte> row(8);
  std::memcpy(row.data(), &value, sizeof value);
  std::memcpy(row.data() + sizeof value, &pushed_last, sizeof pushed_last);
  change.pushes.push_back({.rows = {std::make_shared<const IdList>(IdList{9}), row}});
  share.apply(std::move(change));
  EXPECT_EQ(share.counted(), 0U);
  const auto read = [&] {
    float now = -1;
    share.read(std::vector<std::uint64_t>{9}, reinterpret_cast<std::byte*>(&now));
    return now;
  };
  EXPECT_EQ(read(), value);
  push_alone(share, shape, {});
  EXPECT_EQ(read(), value);
  push_alone(share, shape, {});
  EXPECT_EQ(read(), 0) << "the step 14 is the fourth without it";
}

}  // namespace
}  // namespace paceline::server
