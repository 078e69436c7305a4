#include "paceline/core/checkpoint/save_agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "paceline/core/base/seed.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::checkpoint {
namespace {

using News = SaveAgreement::News;
using Decision = SaveAgreement::Decision;

// Ranks in step in virtual time, which is counted in steps: shares take random times and fail at
// random, and so does rank 0's commit; saves and stops are asked for at random ranks and steps.
class VirtualRanks {
 public:
  VirtualRanks(int ranks, std::uint64_t seed)
      : agreements_(static_cast<std::size_t>(ranks)),
        writes_until_(agreements_.size()),
        numbers_(seed) {}

  void run(int steps) {
    std::optional<News> pending;
    for (now_ = 1; now_ <= steps && !stopped_at_; ++now_) {
      ask_at_random();
      work();
      if (pending) hear(*pending);
      // The loop of a program does the same: a due save waits for the one before it, in rounds of
      // their own.
      if (is_due()) {
        while (!agreements_[0].is_idle()) {
          finish_writing();
          hear(round());
          work_at_once();
        }
        begin();
      }
      save_now_ = false;
      pending = round();
    }
    while (!agreements_[0].is_idle()) {
      finish_writing();
      hear(round());
      work_at_once();
    }
  }

  int begun = 0, committed = 0, given_up = 0;
  std::optional<int> stopped_at_, stop_asked_at_;

 private:
  struct Share {
    int until = 0;
    bool well = true;
  };

  bool is_due() const { return save_now_ || now_ % 7 == 0; }

  void ask_at_random() {
    auto& anyone = agreements_[numbers_.below(agreements_.size())];
    if (numbers_.below(20) == 0) anyone.ask(false);
    if (numbers_.below(200) == 0) {
      anyone.ask(true);
      if (!stop_asked_at_) stop_asked_at_ = now_;
    }
  }

  void begin() {
    ++begun;
    any_share_failed_ = false;
    for (std::size_t r = 0; r < agreements_.size(); ++r) {
      agreements_[r].begin();
      writes_until_[r] = Share{now_ + static_cast<int>(numbers_.below(12)), numbers_.below(10) > 0};
      any_share_failed_ |= !writes_until_[r]->well;
    }
  }

  void work() {
    for (std::size_t r = 0; r < agreements_.size(); ++r)
      if (writes_until_[r] && writes_until_[r]->until <= now_) end_share(r);
    if (closes_until_ && closes_until_->until <= now_) end_close();
  }
  void finish_writing() {
    for (std::size_t r = 0; r < agreements_.size(); ++r)
      if (writes_until_[r]) end_share(r);
  }
  void work_at_once() {
    if (closes_until_) end_close();
  }
  void end_share(std::size_t r) {
    agreements_[r].wrote(writes_until_[r]->well);
    writes_until_[r].reset();
  }
  void end_close() {
    agreements_[0].closed(closes_until_->well);
    closes_until_.reset();
  }

  News round() {
    News all = agreements_[0].news();
    for (std::size_t r = 1; r < agreements_.size(); ++r) {
      const News news = agreements_[r].news();
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], news[i]);
    }
    return all;
  }

  void hear(const News& all) {
    const Decision decision = agreements_[0].hear(all);
    for (std::size_t r = 1; r < agreements_.size(); ++r)
      ASSERT_EQ(agreements_[r].hear(all), decision) << "rank " << r << " decides alone";
    if (decision.close) {
      for (const auto& share : writes_until_) ASSERT_FALSE(share) << "closed before all had ended";
      ASSERT_EQ(decision.failed, any_share_failed_);
      const bool well = !decision.failed && numbers_.below(10) > 0;
      closes_until_ = Share{now_ + static_cast<int>(numbers_.below(4)), well};
      (well ? committed : given_up) += 1;
      closing_well_ = well;
    }
    if (decision.over) {
      ASSERT_EQ(decision.failed, !closing_well_);
    }
    save_now_ = save_now_ || decision.save;
    if (decision.stop) stopped_at_ = now_;
  }

  std::vector<SaveAgreement> agreements_;
  std::vector<std::optional<Share>> writes_until_;  // by rank
  std::optional<Share> closes_until_;               // rank 0's
  SeededNumbers numbers_;
  int now_ = 0;
  bool save_now_ = false, any_share_failed_ = false, closing_well_ = false;
};

TEST(SaveAgreement, AllRanksDecideTheSameAndEverySaveIsCommittedOrGivenUpOnce) {
  const std::uint64_t runs = test::is_nightly() ? 100'000 : 2'000;
  int stops = 0, given_up = 0, committed = 0;
  for (std::uint64_t run = 0; run < runs; ++run) {
    SCOPED_TRACE(run);
    VirtualRanks ranks(1 + static_cast<int>(run % 6), test::seed(run + 1));
    ranks.run(100);
    ASSERT_EQ(ranks.begun, ranks.committed + ranks.given_up);
    given_up += ranks.given_up;
    committed += ranks.committed;
    if (!ranks.stopped_at_) continue;
    ++stops;
    EXPECT_LE(*ranks.stopped_at_, *ranks.stop_asked_at_ + 1) << "a stop is heard one step later";
  }
  EXPECT_GT(stops, 0);
  EXPECT_GT(given_up, 0);
  EXPECT_GT(committed, given_up);
}

TEST(SaveAgreement, ARankWithoutNewsAsksForNothing) {
  SaveAgreement agreement;
  EXPECT_EQ(agreement.hear(agreement.news()), Decision{});
  agreement.ask(false);
  agreement.ask(true);
  agreement.ask(false);
  EXPECT_EQ(agreement.hear(agreement.news()), (Decision{.save = true, .stop = true}));
  EXPECT_EQ(agreement.hear(agreement.news()), Decision{});
}

TEST(Deal, SharesDifferByAtMostTheLargestTensor) {
  SeededNumbers numbers(test::seed(1));
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> bytes(numbers.below(40));
    for (auto& one : bytes) one = numbers.below(1 << numbers.below(20));
    const int ranks = 1 + static_cast<int>(numbers.below(9));
    std::vector<std::uint64_t> shares(static_cast<std::size_t>(ranks), 0);
    const auto rank_of = deal(bytes, ranks);
    ASSERT_EQ(rank_of.size(), bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i)
      shares.at(static_cast<std::size_t>(rank_of[i])) += bytes[i];
    const auto [least, most] = std::ranges::minmax(shares);
    EXPECT_LE(most - least, bytes.empty() ? 0 : std::ranges::max(bytes));
  }
}

}  // namespace

}  // namespace paceline::checkpoint
