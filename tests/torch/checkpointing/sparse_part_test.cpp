// Rows of a sparse table on servers are saved and go on, on any number of servers and ranks.
#include <gmock/gmock.h>

#include "paceline/core/server/serve.h"
#include "paceline/torch/server_embedding/server_embedding.h"
#include "tests/support/local_world.h"
#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

using testing::HasSubstr;

// A program that trains rows, of which each rank has some samples of a global batch.
struct RowTraining {
  std::string directory;
  int ranks = 1, servers = 1;
  std::string rule = "adagrad:rate=0.1";
  std::size_t width = 4;
  std::uint64_t seed = 3;

  // Returns the rows of all ids when so many steps are done.
  at::Tensor run(std::int64_t steps) const {
    at::Tensor end;
    const LocalWorldOptions options = {.servers = servers};
    test::run_ranks(ranks, options, [&](Job& job) {
      if (job.role() == Role::server) return serve(job);
      server::SparseTable table(
          job, {.name = "rows", .width = width, .dtype = Dtype::f64, .rule = rule, .seed = seed});
      ServerEmbedding embedding(table);
      Checkpoints checkpoints(job, directory, {.every = 3, .resume = true});
      checkpoints.add("rows", table);
      for (std::int64_t step = checkpoints.resume(); step < steps;) {
        // All ranks have the same batch, so that their number makes no difference.
        const at::Tensor ids = (at::arange(12, at::kLong) * (step + 3)) % 25;
        embedding(ids).square().sum().backward();
        embedding->step();
        checkpoints.save_if_due(++step);
      }
      EXPECT_EQ(checkpoints.finish(), 0);
      table.quiesce().wait();
      const at::NoGradGuard no_grad;
      const at::Tensor rows = embedding(at::arange(30, at::kLong));
      if (job.rank() == 0) end = rows;
    });
    return end;
  }
};

TEST(SparsePart, RowsGoOnWithTheSameBitsOnAnyNumberOfServersAndRanks) {
  for (const char* rule : {"adagrad:rate=0.1", "adagrad:per=row", "sgd", "adam"}) {
    const TemporaryFolder at_once, in_parts;
    const at::Tensor whole = RowTraining{.directory = at_once.path(), .rule = rule}.run(11);
    const RowTraining part{.directory = in_parts.path(), .rule = rule};
    RowTraining other = part;
    other.ranks = 2;
    other.servers = 3;
    RowTraining last = part;
    last.servers = 7;
    part.run(4);   // the save of step 3 stays
    other.run(7);  // that of step 6
    EXPECT_TRUE(at::equal(last.run(11), whole)) << rule;
  }
}

TEST(SparsePart, AnotherTableIsRefusedByWhatDiffers) {
  const TemporaryFolder folder;
  const RowTraining right{.directory = folder.path()};
  right.run(4);
  const auto refusal = [](const RowTraining& wrong) {
    try {
      wrong.run(5);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  RowTraining wrong = right;
  wrong.width = 5;
  EXPECT_THAT(refusal(wrong), HasSubstr("width"));
  wrong = right;
  wrong.rule = "adagrad:per=row";
  EXPECT_THAT(refusal(wrong), HasSubstr("state"));
  wrong = right;
  wrong.seed = 4;
  EXPECT_THAT(refusal(wrong), HasSubstr("seed"));
}

}  // namespace
}  // namespace paceline
