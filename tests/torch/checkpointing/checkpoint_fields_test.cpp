#include "paceline/torch/checkpointing/checkpoint_fields.h"

#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

struct OwnValues {
  double best = 0;
  float small = 0;
  std::int64_t count = 0;
  std::uint64_t large = 0;
  bool flag = false;
  std::string text;
  std::vector<double> history;
  std::vector<std::vector<int>> table;
  at::Tensor ema, late;

  void visit(CheckpointFields& f) {
    f("best", best);
    f("small", small);
    f("count", count);
    f("large", large);
    f("flag", flag);
    f("text", text);
    f("history", history);
    f("table", table);
    f("ema", ema);
    f("late", late);
  }
};

TEST(CheckpointFields, ComeBackAsRankZeroHadThem) {
  const TemporaryFolder folder;
  const double infinity = std::numeric_limits<double>::infinity();
  run_ranks(2, [&](Job& job) {
    OwnValues own{.best = job.rank() == 0 ? infinity : 1.5,
                  .small = 0.1f,
                  .count = -(std::int64_t{1} << 62),
                  .large = ~std::uint64_t{0},
                  .flag = true,
                  .text = "a \"text\" \n",
                  .history = {0.1, -infinity, 1e-320},
                  .table = {{1, 2}, {}},
                  .ema = at::full({2, 3}, job.rank() + 0.25).t(),
                  .late = at::arange(4)};
    Checkpoints checkpoints(job, folder.file("run"));
    checkpoints.add("mine", [&](CheckpointFields& f) { own.visit(f); });
    checkpoints.resume();
    EXPECT_TRUE(checkpoints.save(3));
  });
  run_ranks(3, [&](Job& job) {
    OwnValues own{.ema = at::zeros({3, 2})};
    Checkpoints checkpoints(job, folder.file("run"), {.resume = true});
    checkpoints.add("mine", [&](CheckpointFields& f) { own.visit(f); });
    EXPECT_EQ(checkpoints.resume(), 3);
    EXPECT_EQ(own.best, infinity);
    EXPECT_EQ(own.small, 0.1f);
    EXPECT_EQ(own.count, -(std::int64_t{1} << 62));
    EXPECT_EQ(own.large, ~std::uint64_t{0});
    EXPECT_TRUE(own.flag);
    EXPECT_EQ(own.text, "a \"text\" \n");
    EXPECT_EQ(own.history, (std::vector<double>{0.1, -infinity, 1e-320}));
    EXPECT_EQ(own.table, (std::vector<std::vector<int>>{{1, 2}, {}}));
    EXPECT_TRUE(at::equal(own.ema, at::full({3, 2}, 0.25)));
    EXPECT_TRUE(at::equal(own.late, at::arange(4)));
  });
}

}  // namespace
}  // namespace paceline
