// The traffic and the memory of sharding, and the order in which units come and go.
#include "paceline/torch/shard/unit_gathers.h"

#include <algorithm>

#include "tests/torch/shard/sharded_training.h"

namespace paceline {
namespace {

using namespace sharded_tests;
using shard::ShardedAveraging;
using shard::UnitEvent;
using Kind = UnitEvent::Kind;

ShardedAveraging& sharded(DataParallel& parallel) {
  return dynamic_cast<ShardedAveraging&>(parallel.replicas().synchrony());
}

// Runs `ranks` threads that each train `model()` for some steps; then `look` sees them.
template <typename Model>
void train_and_look(int ranks, const Stage& stage, const std::function<Model()>& make_model,
                    int steps, const std::function<void(DataParallel&, Model&, int rank)>& look,
                    const std::string& compression = "none") {
  std::vector<Model> models;
  for (int rank = 0; rank < ranks; ++rank) models.push_back(make_model());
  test::run_ranks(ranks, [&](Job& job) {
    Model& model = models[static_cast<std::size_t>(job.rank())];
    DataParallelOptions options = options_of(stage);
    options.compression = compression;
    DataParallel parallel(model, job, options);
    const auto optimizer = optimizer_of("adam", parallel.parameters());
    for (int step = 0; step < steps; ++step) {
      optimizer->zero_grad();
      loss_of(model, step, job.rank()).backward();
      parallel.step(*optimizer);
    }
    parallel.finish();
    look(parallel, model, job.rank());
  });
}

// This rank sends them.
template <typename Model>
double bytes_of_a_step(DataParallel& parallel, Model& model, int rank) {
  const auto before = sharded(parallel).traffic().bytes_sent;
  const auto optimizer = optimizer_of("sgd", parallel.parameters());
  loss_of(model, 7, rank).backward();
  parallel.step(*optimizer);
  parallel.finish();
  return static_cast<double>(sharded(parallel).traffic().bytes_sent - before);
}

TEST(UnitGathers, MoveTheBytesOfTheFormula) {
  for (const int ranks : {2, 3, 4}) {
    for (const Stage& stage : kSharded) {
      std::mutex mutex;
      double sent = 0, padded = 0, saved = 0;
      train_and_look<Tree>(
          ranks, stage, [] { return Tree(); }, 2,
          [&](DataParallel& parallel, Tree& model, int rank) {
            const double bytes = bytes_of_a_step(parallel, model, rank);
            const std::lock_guard lock(mutex);
            sent += bytes;
            padded = static_cast<double>(sharded(parallel).units().bytes());
            const auto& units = sharded(parallel).units().all();
            // The first unit is the last of the forward pass.
            saved = static_cast<double>(units.front().bytes + units.back().bytes);
            EXPECT_EQ(parallel.last_step().sharded.gathered_bytes,
                      stage.stage == 3 ? 2 * padded - saved : padded);
          });
      const double all = stage.stage == 3 ? 3 * padded - saved : 2 * padded;
      EXPECT_EQ(sent, (ranks - 1) * all) << stage << ", " << ranks << " ranks, all of them";
    }
  }
}

TEST(UnitGathers, GradientsIn16BitsAreHalfTheBytes) {
  std::mutex mutex;
  double sent = 0, padded = 0;
  train_and_look<nn::Sequential>(
      3, {2, 1}, [] { return mlp(at::kFloat); }, 1,
      [&](DataParallel& parallel, nn::Sequential& model, int rank) {
        const double bytes = bytes_of_a_step(parallel, model, rank);
        const std::lock_guard lock(mutex);
        sent += bytes;
        padded = static_cast<double>(sharded(parallel).units().bytes());
      },
      "bf16");
  EXPECT_EQ(sent, 2 * (padded + padded / 2));
}

// The largest sum of neighbours, so many at once; the root stands last and does not count.
double largest_window(const std::vector<shard::Unit>& units, std::size_t window) {
  std::size_t most = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    std::size_t sum = 0;
    for (std::size_t v = u; v < std::min(u + window, units.size()); ++v)
      sum += units[v].is_root ? 0 : units[v].bytes;
    most = std::max(most, sum);
  }
  return static_cast<double>(most);
}

TEST(UnitGathers, HoldNoMoreMemoryThanTheFormula) {
  for (const Stage& stage : kSharded) {
    train_and_look<nn::Sequential>(
        2, stage, [] { return mlp(at::kDouble); }, 4,
        [&](DataParallel& parallel, nn::Sequential& model, int) {
          const auto& units = sharded(parallel).units().all();
          const auto padded = static_cast<double>(sharded(parallel).units().bytes());
          const StepReport& report = parallel.last_step();
          double leaves = 0;
          for (const at::Tensor& leaf : parallel.parameters())
            leaves += static_cast<double>(leaf.nbytes());
          EXPECT_LE(leaves, padded / 2) << "and so the optimizer's state";
          // Above stage 1 a bucket that is filled, and the one under way; at stage 2 a layer's
          // gradients may fill two.
          EXPECT_LE(report.gradient_memory,
                    stage.stage == 1 ? padded : largest_window(units, stage.stage == 2 ? 3 : 2));
          EXPECT_EQ(report.sharded.piece_memory, stage.stage == 3 ? padded / 2 : 0);
          if (stage.stage < 3) {
            EXPECT_EQ(report.sharded.whole_memory, padded);
            return;
          }
          EXPECT_LE(report.sharded.whole_memory,
                    largest_window(units, static_cast<std::size_t>(stage.prefetch) + 1));
          for (const at::Tensor& parameter : model->parameters())
            EXPECT_EQ(parameter.storage().nbytes(), 0u) << "between steps";
          EXPECT_THROW((void)model->parameters()[0].const_data_ptr<double>(), c10::Error);
        });
  }
}

// A unit's gather starts when the unit `prefetch` uses before it has begun, and not sooner.
TEST(UnitGathers, StartAsFarAheadOfUseAsTheyAreAllowed) {
  for (const int ahead : {0, 1, 2}) {
    train_and_look<Tree>(
        2, {3, ahead}, [] { return Tree(); }, 3,
        [&](DataParallel& parallel, Tree&, int) {
          const auto& events = sharded(parallel).gathers().events();
          std::vector<std::size_t> begins, gathers;  // places among the events
          std::size_t held = 0, most = 0;
          const std::size_t root = sharded(parallel).units().size() - 1;
          for (std::size_t e = 0; e < events.size(); ++e) {
            const bool is_root = events[e].unit == root;
            if (events[e].kind == Kind::begin) begins.push_back(e);
            if (events[e].kind == Kind::gather) gathers.push_back(e);
            if (events[e].kind == Kind::gather && !is_root) most = std::max(most, ++held);
            if (events[e].kind == Kind::empty && !is_root) --held;
          }
          ASSERT_EQ(gathers.size(), begins.size());
          EXPECT_EQ(begins.size(), 12u) << "forward 7, backward 5";
          for (std::size_t use = 0; use < begins.size(); ++use) {
            EXPECT_EQ(events[gathers[use]].unit, events[begins[use]].unit) << "in order";
            EXPECT_LT(gathers[use], begins[use]);
            const auto before = static_cast<std::size_t>(ahead);
            if (ahead > 0 && use >= before) {
              EXPECT_GT(gathers[use], begins[use - before]);
            }
            if (use == 0) continue;
            const auto emptied = std::ranges::count_if(
                events.begin() +
                    static_cast<std::ptrdiff_t>(std::min(begins[use - 1], gathers[use])),
                events.begin() + static_cast<std::ptrdiff_t>(gathers[use]),
                [](const UnitEvent& event) { return event.kind == Kind::empty; });
            if (ahead == 0) {
              EXPECT_GT(gathers[use], begins[use - 1]);
            } else {
              EXPECT_EQ(emptied, 0) << "it starts while the one before it computes";
            }
          }
          EXPECT_EQ(most, static_cast<std::size_t>(ahead) + 1);
        });
  }
}

TEST(UnitGathers, EvaluationSeesTheParametersAndLeavesTheOrderAlone) {
  const auto make = [] { return cnn(at::kDouble); };
  std::vector<at::Tensor> outputs(2);
  for (const int stage : {0, 3}) {
    train_and_look<nn::Sequential>(
        2, {stage, 1}, make, 3, [&](DataParallel& parallel, nn::Sequential& model, int rank) {
          const auto evaluate = [&] {
            const at::NoGradGuard no_grad;
            model->eval();
            const at::Tensor loss = loss_of(model, 50, 0);
            model->train();
            return loss;
          };
          const at::Tensor outside = evaluate();
          {
            const auto whole = parallel.gathered();
            if (rank == 0) {  // alone
              outputs[static_cast<std::size_t>(stage) / 3] = evaluate();
              EXPECT_TRUE(at::equal(outside, outputs[static_cast<std::size_t>(stage) / 3]));
            }
            EXPECT_THAT(
                stage == 0 ? std::string("gathered") : misuse_of([&] { parallel.synchronize(); }),
                testing::HasSubstr("gathered"));
          }
          if (stage == 0) return;
          const auto optimizer = optimizer_of("sgd", parallel.parameters());
          loss_of(model, 3, rank).backward();
          parallel.step(*optimizer);
          EXPECT_TRUE(sharded(parallel).gathers().gathers_ahead());
        });
  }
  EXPECT_TRUE(at::equal(outputs[0], outputs[1]));
}

// Blocks in an order that the caller gives.
struct ShuffledImpl : nn::Module {
  ShuffledImpl() {
    torch::manual_seed(3);
    for (int i = 0; i < 3; ++i) blocks->push_back(nn::Linear(5, 5));
    register_module("blocks", blocks);
    to(at::kDouble);
  }
  at::Tensor loss(const std::vector<std::size_t>& order) {
    at::Tensor x = at::ones({2, 5}, at::kDouble);
    for (const std::size_t i : order) x = at::tanh(blocks[i]->as<nn::Linear>()->forward(x));
    return x.square().sum();
  }
  nn::ModuleList blocks;
};
TORCH_MODULE(Shuffled);

// A unit that is in use, and will be used again behind another one, holds back what comes after it.
TEST(UnitGathers, StartInTheOrderOfUsesAlsoOfAUnitThatIsUsedTwice) {
  std::vector<Shuffled> models = {Shuffled(), Shuffled()};
  test::run_ranks(2, [&](Job& job) {
    Shuffled& model = models[static_cast<std::size_t>(job.rank())];
    DataParallel parallel(model, job, options_of({3, 3}));
    const auto optimizer = optimizer_of("sgd", parallel.parameters());
    for (int step = 0; step < 4; ++step) {
      optimizer->zero_grad();
      model->loss({0, 1, 0, 2}).backward();
      parallel.step(*optimizer);
    }
    std::vector<std::size_t> gathered, begun;
    for (const UnitEvent& event : sharded(parallel).gathers().events()) {
      if (event.kind == Kind::gather) gathered.push_back(event.unit);
      if (event.kind == Kind::begin) begun.push_back(event.unit);
    }
    EXPECT_EQ(gathered, begun);
    EXPECT_TRUE(sharded(parallel).gathers().gathers_ahead());
  });
}

// They are gathered ahead again once two steps have had one order.
TEST(UnitGathers, AnOrderThatChangesOnAllRanksCostsTheGathersAheadAlone) {
  const std::function<void(DataParallel&, Shuffled&, torch::optim::Optimizer&, int)> steps =
      [](auto& parallel, auto& model, auto& optimizer, int) {
        for (int step = 0; step < 5; ++step) {
          optimizer.zero_grad();
          model
              ->loss(step < 3 ? std::vector<std::size_t>{0, 1, 2}
                              : std::vector<std::size_t>{1, 0, 2, 1})
              .backward();
          parallel.step(optimizer);
          if (auto* const own = dynamic_cast<ShardedAveraging*>(&parallel.replicas().synchrony())) {
            EXPECT_EQ(own->gathers().gathers_ahead(), step != 3) << step;
          }
        }
      };
  const auto make = [] { return Shuffled(); };
  EXPECT_EQ(digest_after<Shuffled>(2, {3, 1}, "adam", make, steps),
            digest_after<Shuffled>(2, {0, 1}, "adam", make, steps));
}

TEST(UnitGathers, OtherOrdersOnOtherRanksAreAMismatchThatNamesBothUnits) {
  std::vector<Shuffled> models = {Shuffled(), Shuffled()};
  std::vector<std::string> told(2);
  test::run_ranks(2, [&](Job& job) {
    const auto rank = static_cast<std::size_t>(job.rank());
    DataParallel parallel(models[rank], job, options_of({3, 1}));
    const auto optimizer = optimizer_of("sgd", parallel.parameters());
    try {
      models[rank]
          ->loss(rank == 0 ? std::vector<std::size_t>{0, 1, 2} : std::vector<std::size_t>{1, 0, 2})
          .backward();
      parallel.step(*optimizer);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::mismatch) << error.what();
      told[rank] = error.what();
    }
  });
  for (const std::string& text : told) {
    EXPECT_THAT(text, testing::AllOf(testing::HasSubstr("blocks.0"), testing::HasSubstr("blocks.1"),
                                     testing::HasSubstr("same order")));
  }
}

}  // namespace
}  // namespace paceline
