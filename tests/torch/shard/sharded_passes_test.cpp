// Passes of any kind and number at stage 3: training, evaluations, saves, and ranks without a batch
// give the bits of stage 0, or a mismatch where ranks really do different things.
#include <chrono>
#include <optional>
#include <random>

#include "tests/support/nightly.h"
#include "tests/torch/shard/sharded_training.h"

namespace paceline {
namespace {

using namespace sharded_tests;
using shard::ShardedAveraging;
using shard::UnitEvent;

constexpr Stage kStage0 = {0, 1}, kStage3 = {3, 1};
LocalWorldOptions world_that_ends(int seconds) {
  return {.operation_timeout = std::chrono::seconds(seconds)};
}

// It has no list, so it is all root.
struct RootAloneImpl : nn::Module {
  RootAloneImpl() {
    torch::manual_seed(9);
    first = register_module("first", nn::Linear(25, 11));
    last = register_module("last", nn::Linear(11, 5));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return last(at::tanh(first(x.flatten(1)))); }
  nn::Linear first{nullptr}, last{nullptr};
};
TORCH_MODULE(RootAlone);

// A list within a model that has parameters of its own, over the rows of the mlp's batches.
struct BlocksImpl : nn::Module {
  BlocksImpl() {
    torch::manual_seed(10);
    in = register_module("in", nn::Linear(25, 13));
    blocks = register_module("blocks", nn::ModuleList());
    for (int i = 0; i < 3; ++i) blocks->push_back(nn::Linear(13, 13));
    out = register_module("out", nn::Linear(13, 5));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = at::tanh(in(x.flatten(1)));
    for (const auto& block : *blocks) y = y + at::tanh(block->as<nn::Linear>()->forward(y));
    return out(y);
  }
  nn::Linear in{nullptr}, out{nullptr};
  nn::ModuleList blocks;
};
TORCH_MODULE(Blocks);

// No root.
struct MlpImpl : nn::Module {
  MlpImpl() { net = register_module("net", mlp(at::kDouble)); }
  at::Tensor forward(const at::Tensor& x) { return net->forward(x); }
  nn::Sequential net{nullptr};
};
TORCH_MODULE(Mlp);

struct Batch {
  at::Tensor x, y;
};

Batch batch_of(int step, int rank, int rows = 3) {
  at::Generator generator = generator_of(100 * step + rank);
  return {at::randn({rows, 1, 5, 5}, generator, at::kDouble),
          at::randn({rows, 5}, generator, at::kDouble)};
}

// A mean over nothing is NaN, so the loss of an empty batch is a sum.
template <typename Model>
at::Tensor pass(Model& model, int step, int rank, int rows = 3) {
  const Batch batch = batch_of(step, rank, rows);
  return (model->forward(batch.x) - batch.y).square().sum() / std::max(rows, 1);
}

template <typename Model>
double evaluate(Model& model) {
  const at::NoGradGuard no_grad;
  return pass(model, 77, 0).template item<double>();
}

template <typename Model>
void train(DataParallel& parallel, Model& model, torch::optim::Optimizer& optimizer, int step,
           int rank) {
  optimizer.zero_grad();
  pass(model, step, rank).backward();
  parallel.step(optimizer);
}

const ShardedAveraging* sharded_of(DataParallel& parallel) {
  return dynamic_cast<const ShardedAveraging*>(&parallel.replicas().synchrony());
}

template <typename Model>
void expect_as_at_stage_0(
    int ranks,
    const std::function<void(DataParallel&, Model&, torch::optim::Optimizer&, int rank)>& steps) {
  const auto make = [] { return Model(); };
  const LocalWorldOptions world = world_that_ends(5);
  const std::string want = digest_after<Model>(ranks, kStage0, "adam", make, steps, world);
  for (const int prefetch : {0, 1, 2})
    EXPECT_EQ(digest_after<Model>(ranks, {3, prefetch}, "adam", make, steps, world), want)
        << "prefetch " << prefetch;
}

// --- evaluations ---------------------------------------------------------------------------------

TEST(ShardedPasses, AnEvaluationBeforeTheFirstStepIsNoPartOfIt) {
  expect_as_at_stage_0<RootAlone>(2, [](auto& parallel, auto& model, auto& optimizer, int rank) {
    evaluate(model);
    for (int step = 0; step < 3; ++step) train(parallel, model, optimizer, step, rank);
  });
}

TEST(ShardedPasses, ANormReadBeforeTheFirstStepIsNoPartOfIt) {
  expect_as_at_stage_0<RootAlone>(2, [](auto& parallel, auto& model, auto& optimizer, int rank) {
    {
      const at::NoGradGuard no_grad;
      EXPECT_GT(model->first->weight.norm().template item<double>(), 0);
    }
    for (int step = 0; step < 3; ++step) train(parallel, model, optimizer, step, rank);
  });
}

// The events of a step after an evaluation are those of the step before it.
TEST(ShardedPasses, AnEvaluationBetweenStepsLeavesGatheringAheadOn) {
  for (const bool in_inference_mode : {false, true}) {
    std::vector<Blocks> models = {Blocks(), Blocks()};
    test::run_ranks(2, world_that_ends(5), [&](Job& job) {
      Blocks& model = models[static_cast<std::size_t>(job.rank())];
      DataParallel parallel(model, job, options_of(kStage3));
      const auto optimizer = optimizer_of("adam", parallel.parameters());
      std::vector<UnitEvent> before;
      for (int step = 0; step < 5; ++step) {
        if (step == 3) {
          const at::NoGradGuard no_grad;
          std::optional<c10::InferenceMode> mode;
          if (in_inference_mode) mode.emplace();
          evaluate(model);
        }
        train(parallel, model, *optimizer, step, job.rank());
        EXPECT_TRUE(sharded_of(parallel)->gathers().gathers_ahead()) << step;
        const auto& events = sharded_of(parallel)->gathers().events();
        if (step == 2) before = events;
        if (step == 4) {
          EXPECT_TRUE(events == before);
        }
      }
    });
  }
}

// A teacher, or a measure of the batch, between a forward pass and its backward.
TEST(ShardedPasses, AnEvaluationWithinAStepLeavesItAsItIs) {
  expect_as_at_stage_0<Blocks>(2, [](auto& parallel, auto& model, auto& optimizer, int rank) {
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      const at::Tensor loss = pass(model, step, rank);
      if (step % 2 == 1) evaluate(model);
      loss.backward();
      if (step > 2) evaluate(model);
      parallel.step(optimizer);
      if (const auto* const own = sharded_of(parallel); own != nullptr) {
        EXPECT_EQ(own->gathers().gathers_ahead(), parallel.replicas().options().zero_prefetch > 0);
      }
    }
  });
}

// --- ranks without a batch -----------------------------------------------------------------------

TEST(ShardedPasses, RanksWithoutABatchFollowWindowsOfAnyNumberOfPasses) {
  expect_as_at_stage_0<Blocks>(3, [](auto& parallel, auto& model, auto& optimizer, int rank) {
    const std::vector<int> passes = {1, 3, 2, 1, 1, 2};
    for (int step = 0; step < static_cast<int>(passes.size()); ++step) {
      optimizer.zero_grad();
      const bool has_batch = (rank + step) % 3 != 0 || step > 3;
      const int count = passes[static_cast<std::size_t>(step)];
      parallel.weight(has_batch ? count : 0);
      if (has_batch) {
        {
          const auto paused = parallel.no_sync();
          for (int k = 1; k < count; ++k) (pass(model, 10 * step + k, rank) / count).backward();
        }
        (pass(model, 10 * step, rank) / count).backward();
      }
      parallel.step(optimizer);
    }
  });
}

struct NormedImpl : nn::Module {
  NormedImpl() {
    torch::manual_seed(12);
    net = register_module(
        "net", nn::Sequential(nn::Flatten(), nn::Linear(25, 9),
                              SyncBatchNorm(nn::BatchNormOptions(9)), nn::Tanh(), nn::Linear(9, 7),
                              SyncBatchNorm(nn::BatchNormOptions(7)), nn::Linear(7, 5)));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return net->forward(x); }
  nn::Sequential net{nullptr};
};
TORCH_MODULE(Normed);

// An empty batch passes the same layers, as often as the others have batches.
TEST(ShardedPasses, RanksWithEmptyBatchesPassTheLayersThatMixRanks) {
  expect_as_at_stage_0<Normed>(2, [](auto& parallel, auto& model, auto& optimizer, int rank) {
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      const bool has_batch = rank == 0 || step % 2 == 0;
      const int passes = 1 + step % 3;
      parallel.weight(has_batch ? passes : 0);
      {
        const auto paused = parallel.no_sync();
        for (int k = 1; k < passes; ++k)
          (pass(model, 10 * step + k, rank, has_batch ? 3 : 0) / passes).backward();
      }
      (pass(model, 10 * step, rank, has_batch ? 3 : 0) / passes).backward();
      parallel.step(optimizer);
    }
  });
}

// --- ranks that do different things --------------------------------------------------------------

struct Ended {
  std::string digest, error;
  double seconds = 0;  // from the beginning of what differs to the error
};

// Ranks train, then `differ`, then train again.
template <typename Model>
std::vector<Ended> ended_after(
    int ranks, const Stage& stage,
    const std::function<void(DataParallel&, Model&, torch::optim::Optimizer&, Job&)>& differ,
    int steps_before = 2) {
  std::vector<Model> models;
  for (int rank = 0; rank < ranks; ++rank) models.push_back(Model());
  std::vector<Ended> all(static_cast<std::size_t>(ranks));
  test::run_ranks(ranks, world_that_ends(5), [&](Job& job) {
    const auto rank = static_cast<std::size_t>(job.rank());
    Ended& ended = all[rank];
    auto began = std::chrono::steady_clock::now();
    try {
      DataParallel parallel(models[rank], job, options_of(stage));
      const auto optimizer = optimizer_of("sgd", parallel.parameters());
      for (int step = 0; step < steps_before; ++step)
        train(parallel, models[rank], *optimizer, step, job.rank());
      began = std::chrono::steady_clock::now();
      differ(parallel, models[rank], *optimizer, job);
      for (int step = 0; step < 2; ++step)
        train(parallel, models[rank], *optimizer, 50 + step, job.rank());
      const auto whole = parallel.gathered();
      ended.digest = digest_of(*models[rank]);
    } catch (const Error& error) {
      ended.error = error.what();
      if (error.fault() != Fault::mismatch) ended.error = "no mismatch: " + ended.error;
      ended.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    }
  });
  return all;
}

// The ranks end with what is right, or are told soon, all of them.
template <typename Model>
void expect_right_or_told(
    int ranks,
    const std::function<void(DataParallel&, Model&, torch::optim::Optimizer&, Job&)>& differ,
    const std::string& what, int steps_before = 2) {
  const std::vector<Ended> want = ended_after<Model>(ranks, kStage0, differ, steps_before);
  const std::vector<Ended> got = ended_after<Model>(ranks, kStage3, differ, steps_before);
  for (std::size_t rank = 0; rank < got.size(); ++rank) {
    SCOPED_TRACE(what + ", rank " + std::to_string(rank));
    EXPECT_EQ(want[rank].error, "") << "at stage 0";
    if (got[0].error.empty()) {
      EXPECT_EQ(got[rank].error, "");
      EXPECT_EQ(got[rank].digest, want[rank].digest);
      continue;
    }
    EXPECT_THAT(got[rank].error, testing::Not(testing::HasSubstr("no mismatch")));
    EXPECT_THAT(got[rank].error, testing::ContainsRegex("rank [0-9].*rank [0-9]"));
    EXPECT_LT(got[rank].seconds, 2) << "it waits 0.3 s; the rest is for slow machines";
  }
}

template <typename Model>
void accumulate(DataParallel& parallel, Model& model, torch::optim::Optimizer& optimizer, int rank,
                int passes) {
  optimizer.zero_grad();
  {
    const auto paused = parallel.no_sync();
    for (int k = 1; k < passes; ++k) pass(model, 30 + k, rank).backward();
  }
  pass(model, 30, rank).backward();
  parallel.step(optimizer);
}

TEST(ShardedPasses, UnequalNumbersOfPassesAreRightOrToldToAllRanks) {
  for (const int before : {0, 2}) {
    for (const int more : {0, 1}) {
      const auto differ = [more](auto& parallel, auto& model, auto& optimizer, Job& job) {
        accumulate(parallel, model, optimizer, job.rank(), job.rank() == more ? 3 : 1);
      };
      const std::string what =
          c10::str("rank ", more, " makes 3 passes after ", before, " steps, others 1");
      expect_right_or_told<Blocks>(2, differ, what, before);
      if (more == 0) continue;
      expect_right_or_told<RootAlone>(2, differ, what + ", root alone", before);
      expect_right_or_told<Mlp>(2, differ, what + ", mlp", before);
    }
  }
}

struct Program {
  const char* name;
  std::function<void(DataParallel&, Job&)> others;  // while rank 0 evaluates
};

TEST(ShardedPasses, OneRankThatEvaluatesAloneIsToldToAllRanks) {
  const std::vector<Program> programs = {
      {"trains", [](DataParallel&, Job&) {}},
      {"takes a mean", [](DataParallel& p, Job&) { (void)p.mean(at::ones({}, at::kDouble)); }},
      {"waits for all", [](DataParallel&, Job& job) { job.world().barrier().wait(); }},
      {"gathers all", [](DataParallel& p, Job&) { (void)p.gathered(); }}};
  for (const Program& program : programs) {
    const auto differ = [&](auto& parallel, auto& model, auto&, Job& job) {
      if (job.rank() == 0) evaluate(model);
      program.others(parallel, job);
    };
    const std::string what = std::string("rank 0 evaluates, rank 1 ") + program.name;
    expect_right_or_told<Blocks>(2, differ, what);
    expect_right_or_told<RootAlone>(2, differ, what + ", root alone");
  }
}

// All ranks skip a batch that failed them in the middle of a pass.
TEST(ShardedPasses, APassThatAnExceptionEndedIsForgotten) {
  expect_as_at_stage_0<Blocks>(2, [](auto& parallel, auto& model, auto& optimizer, int rank) {
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      if (step == 2 || step == 5) {
        EXPECT_THROW((void)model->blocks[0]->template as<nn::Linear>()->forward(at::ones({1, 2})),
                     c10::Error);
        EXPECT_ANY_THROW({
          const at::Tensor y = model->in(at::ones({3, 25}, at::kDouble));
          (void)model->blocks[0]->template as<nn::Linear>()->forward(y);
          throw std::runtime_error("a batch that cannot be used");
        });
      }
      train(parallel, model, optimizer, step, rank);
    }
  });
}

// --- the law -------------------------------------------------------------------------------------

// All ranks do the same in a turn, but for who has a batch.
struct Turn {
  enum class Kind : std::uint8_t { step, evaluation, inference, norm, save, consensus } kind;
  int passes = 1;                    // of a step: all but the last under no_sync()
  std::vector<bool> has_batch = {};  // by rank
  bool evaluates_within = false;     // between the last forward pass and its backward
  bool reads_before_update = false;  // after the backward pass, in an evaluation
};

using Turns = std::vector<Turn>;

Turns turns_of(std::uint64_t seed, int ranks) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  Turns turns;
  for (int t = 0; t < 12; ++t) {
    Turn turn{.kind = below(2) == 0 ? Turn::Kind::step : static_cast<Turn::Kind>(below(6))};
    turn.passes = below(3) == 0 ? 1 + static_cast<int>(below(3)) : 1;
    turn.has_batch.assign(static_cast<std::size_t>(ranks), true);
    const bool has_shadow = below(3) == 0;
    if (has_shadow) turn.has_batch[below(static_cast<std::uint64_t>(ranks))] = false;
    // A rank without a batch is in no pass, in which it might evaluate with the others.
    turn.evaluates_within = !has_shadow && below(4) == 0;
    turn.reads_before_update = !has_shadow && below(4) == 0;
    turns.push_back(turn);
  }
  return turns;
}

template <typename Model>
double read_a_norm(Model& model) {
  const at::NoGradGuard no_grad;
  return model->parameters().front().norm().template item<double>();
}

template <typename Model>
void step_of(const Turn& turn, int t, DataParallel& parallel, Model& model,
             torch::optim::Optimizer& optimizer, int rank) {
  optimizer.zero_grad();
  const bool has_batch = turn.has_batch[static_cast<std::size_t>(rank)];
  parallel.weight(has_batch ? turn.passes : 0);
  if (has_batch) {
    {
      const auto paused = parallel.no_sync();
      for (int k = 1; k < turn.passes; ++k)
        (pass(model, 10 * t + k, rank) / turn.passes).backward();
    }
    const at::Tensor loss = pass(model, 10 * t, rank) / turn.passes;
    if (turn.evaluates_within) evaluate(model);
    loss.backward();
  }
  if (turn.reads_before_update) evaluate(model);
  parallel.step(optimizer);
}

// Returns what this rank sees in a turn.
template <typename Model>
std::string seen_in(const Turn& turn, int t, DataParallel& parallel, Model& model,
                    torch::optim::Optimizer& optimizer, int rank) {
  switch (turn.kind) {
    case Turn::Kind::step: step_of(turn, t, parallel, model, optimizer, rank); return "step";
    case Turn::Kind::evaluation: return c10::str(evaluate(model));
    case Turn::Kind::inference: {
      const c10::InferenceMode mode;
      return c10::str(evaluate(model));
    }
    case Turn::Kind::norm: return c10::str(read_a_norm(model));
    case Turn::Kind::save: {
      const auto whole = parallel.gathered();
      return rank == 0 ? digest_of(*model) + c10::str(evaluate(model)) : digest_of(*model);
    }
    case Turn::Kind::consensus: {
      const auto whole = parallel.consensus();
      return digest_of(*model);
    }
  }
  return {};
}

// Returns it by rank and turn; the last is the digest of the model.
template <typename Model>
std::vector<std::vector<std::string>> seen_by_all(const Turns& turns, int ranks,
                                                  const Stage& stage) {
  std::vector<Model> models;
  for (int rank = 0; rank < ranks; ++rank) models.push_back(Model());
  std::vector<std::vector<std::string>> seen(static_cast<std::size_t>(ranks));
  test::run_ranks(ranks, world_that_ends(20), [&](Job& job) {
    const auto rank = static_cast<std::size_t>(job.rank());
    DataParallel parallel(models[rank], job, options_of(stage));
    const auto optimizer = optimizer_of("adam", parallel.parameters());
    for (std::size_t t = 0; t < turns.size(); ++t)
      seen[rank].push_back(
          seen_in(turns[t], static_cast<int>(t), parallel, models[rank], *optimizer, job.rank()));
    const auto whole = parallel.gathered();
    seen[rank].push_back(digest_of(*models[rank]));
  });
  return seen;
}

template <typename Model>
void expect_the_bits_of_stage_0(int ranks, std::uint64_t number) {
  const Turns turns = turns_of(test::seed(number), ranks);
  const auto want = seen_by_all<Model>(turns, ranks, kStage0);
  const int prefetch = static_cast<int>(number % 3);
  EXPECT_EQ(seen_by_all<Model>(turns, ranks, {3, prefetch}), want)
      << "seed " << number << ", " << ranks << " ranks, prefetch " << prefetch;
}

TEST(ShardedPasses, AnyPassesOfAllRanksHaveTheBitsOfStage0) {
  const std::uint64_t rounds = test::is_nightly() ? 100 : 6;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (const int ranks : {2, 3}) {
      expect_the_bits_of_stage_0<Blocks>(ranks, 7000 + 3 * round);
      expect_the_bits_of_stage_0<RootAlone>(ranks, 7001 + 3 * round);
      expect_the_bits_of_stage_0<Mlp>(ranks, 7002 + 3 * round);
    }
  }
}

// One rank makes a pass more or less than the others, or evaluates, or does not, in one turn.
TEST(ShardedPasses, AnyPassOfOneRankAloneIsRightOrToldToAllRanks) {
  enum class Odd : std::uint8_t { trains_more, evaluates, looks, gathers };
  const int rounds = test::is_nightly() ? 100 : 8;
  std::mt19937_64 random(test::seed(7900));
  for (int round = 0; round < rounds; ++round) {
    const auto odd = static_cast<Odd>(random() % 4);
    const int ranks = 2 + static_cast<int>(random() % 2), who = static_cast<int>(random() % 2),
              before = static_cast<int>(random() % 3);
    const bool within = random() % 2 == 0;
    const auto differ = [=](auto& parallel, auto& model, auto& optimizer, Job& job) {
      optimizer.zero_grad();
      const auto differs = [&] {
        if (job.rank() != who) return;
        if (odd == Odd::trains_more) (void)pass(model, 40, who);
        if (odd == Odd::evaluates) evaluate(model);
        if (odd == Odd::looks) read_a_norm(model);
        if (odd == Odd::gathers) (void)parallel.gathered();
      };
      if (!within) differs();
      const at::Tensor loss = pass(model, 41, job.rank());
      if (within) differs();
      loss.backward();
      parallel.step(optimizer);
    };
    const std::string what =
        c10::str("round ", round, ": rank ", who, " of ", ranks, " alone does ",
                 static_cast<int>(odd), within ? " within a step" : "", ", after ", before);
    expect_right_or_told<Blocks>(ranks, differ, what, before);
  }
}

}  // namespace
}  // namespace paceline
