// A batch whose loss is NaN on one rank, under DataParallelOptions::non_finite: the law of what
// becomes of it, for every setting of a training.
#include <deque>
#include <limits>

#include "paceline/core/server/server.h"
#include "paceline/torch/replica/replica.h"
#include "tests/torch/parallel/split_training.h"

namespace paceline {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

enum class Ending { step, own_optimizers, synchronize };

struct NanCell {
  std::string name;
  DataParallelOptions options = {};
  Ending ending = Ending::step;
  std::string layout = {};  // empty: all ranks are replicas
  int ranks = 2;
  int servers = 0;
};

std::ostream& operator<<(std::ostream& out, const NanCell& cell) {
  return out << cell.name;
}

DataParallelOptions with_buckets(DataParallelOptions options) {
  options.first_bucket_bytes = 300;
  options.bucket_bytes = 600;
  options.check_replicas_every = 1;
  return options;
}

// In all of these, ranks make each step together.
std::vector<NanCell> lockstep_cells() {
  std::vector<NanCell> cells;
  const auto add = [&](NanCell cell) {
    cell.options = with_buckets(cell.options);
    cells.push_back(std::move(cell));
  };
  for (const Ending ending : {Ending::step, Ending::own_optimizers, Ending::synchronize})
    add({c10::str("stage 0, ending ", static_cast<int>(ending)), {}, ending});
  for (const int stage : {1, 2, 3}) {
    for (const Ending ending : {Ending::step, Ending::synchronize})
      add({c10::str("stage ", stage, ", ending ", static_cast<int>(ending)),
           {.zero_stage = stage},
           ending});
    add({c10::str("stage ", stage, ", o1 fp16"),
         {.precision = "o1:dtype=fp16,scale=8192", .max_grad_norm = 1, .zero_stage = stage}});
  }
  for (const char* precision : {"o1", "o2", "o1:dtype=fp16,scale=8192", "o2:dtype=fp16,scale=8192",
                                "o1:dtype=fp16,scale=1"}) {
    add({precision, {.precision = precision}});
    add({c10::str(precision, ", own optimizers, clipped"),
         {.precision = precision, .max_grad_norm = 1},
         Ending::own_optimizers});
  }
  for (const auto& [layout, ranks] : {std::pair("tp=2", 2), std::pair("dp=2,tp=2", 4)}) {
    for (const int stage : {0, 1, 3})
      add({c10::str(layout, ", stage ", stage),
           {.zero_stage = stage},
           Ending::step,
           layout,
           ranks});
    add({c10::str(layout, ", o2 fp16"),
         {.precision = "o2:dtype=fp16,scale=8192"},
         Ending::step,
         layout,
         ranks});
  }
  for (const char* schedule : {"barrier", "wait_free", "merged", "priority", "general"})
    add({schedule, {.schedule = schedule}, Ending::own_optimizers});
  for (const char* compression : {"fp16", "top_k:ratio=0.5"})
    add({compression, {.compression = compression}});
  for (const char* synchrony :
       {"local_sgd:period=2", "local_sgd:after=2,period=2", "adacomm:start=2",
        "block_momentum:period=2", "elastic:period=2", "admm:period=2", "gossip",
        "gossip:order=atc", "push_sum", "push_sum:late=1", "skeleton:period=2", "none"}) {
    for (const Ending ending : {Ending::step, Ending::own_optimizers})
      add({c10::str(synchrony, ", ending ", static_cast<int>(ending)),
           {.synchrony = synchrony},
           ending});
  }
  for (const char* synchrony : {"bsp", "ssp:staleness=0,update=worker", "ssp:staleness=0"}) {
    for (const Ending ending : {Ending::step, Ending::own_optimizers})
      add({c10::str(synchrony, ", ending ", static_cast<int>(ending)),
           {.synchrony = synchrony},
           ending,
           "",
           2,
           1});
  }
  return cells;
}

// In these nobody waits for anybody, or a rule bears the rank.
std::vector<NanCell> other_cells() {
  std::vector<NanCell> cells;
  for (const char* synchrony : {"asp", "asp:update=worker", "ssp", "ssp:update=worker",
                                "bounded_delay", "backup_workers", "timeout"}) {
    for (const Ending ending : {Ending::step, Ending::own_optimizers})
      cells.push_back({c10::str(synchrony, ", ending ", static_cast<int>(ending)),
                       with_buckets({.synchrony = synchrony}), ending, "", 2, 1});
  }
  cells.push_back({"async_gossip", with_buckets({.synchrony = "async_gossip"})});
  return cells;
}

// The end of a training on all ranks.
struct Outcome {
  std::vector<std::string> digests;  // by rank: of what all stand for
  std::vector<std::string> own;      // by rank: of its replica, and of its optimizer's step count
  std::vector<std::string> texts;    // by rank: of the error in the bad step; empty: none
  std::deque<bool> is_finite;        // by rank: bits of a vector would be one word for all ranks
};

// Makes five good steps, and a bad one behind the third, if it is asked for.
class Program {
 public:
  Program(const NanCell& cell, Job& job, bool has_bad_step, Outcome& outcome)
      : cell_(cell),
        job_(job),
        mesh_(job, cell.layout.empty() ? c10::str("dp=", job.world_size()) : cell.layout),
        net_(layers_on(mesh_)),
        outcome_(outcome) {
    DataParallelOptions options = cell.options;
    const auto make = [](const at::Tensor& parameter) {
      return std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{parameter},
                                                 torch::optim::SGDOptions(0.1).momentum(0.9));
    };
    if (cell.ending == Ending::own_optimizers) options.optimizer = make;
    parallel_ = cell.layout.empty() ? std::make_unique<DataParallel>(*net_, job, options)
                                    : std::make_unique<DataParallel>(*net_, mesh_, options);
    torch::optim::SGD optimizer(parallel_->parameters(),
                                torch::optim::SGDOptions(0.1).momentum(0.9));
    optimizer_ = &optimizer;
    for (int batch = 0; batch < 5; ++batch) {
      if (batch == 3 && has_bad_step) make_bad_step();
      make_step(batch, false);
    }
    finish();
  }

 private:
  void make_step(int batch, bool is_bad) {
    optimizer_->zero_grad();
    const auto rows = static_cast<std::int64_t>(3 + mesh_.rank("dp"));
    parallel_->weight(static_cast<double>(rows));
    const at::Tensor loss = loss_of(*parallel_, net_, samples(10 * batch + mesh_.rank("dp"), rows));
    const at::Tensor told = is_bad && job_.rank() == 1 ? loss * kNan : loss;
    parallel_->backward(told);
    parallel_->loss(told.item<double>());
    if (cell_.ending == Ending::synchronize) {
      parallel_->synchronize();
      optimizer_->step();
    } else if (cell_.ending == Ending::own_optimizers) {
      parallel_->step();
    } else {
      parallel_->step(*optimizer_);
    }
  }

  void make_bad_step() {
    try {
      make_step(3, true);
    } catch (const Error& error) {
      outcome_.texts[place()] = error.what();
    }
    EXPECT_EQ(parallel_->last_step().skipped, parallel_->last_step().overflowed ? 1 : 0);
    const bool is_told = parallel_->last_step().overflowed,
               is_bad_here = parallel_->replicas().synchrony().steps_together() || job_.rank() == 1;
    EXPECT_EQ(is_told, is_bad_here) << cell_;
  }

  void finish() {
    parallel_->finish();
    outcome_.own[place()] = sha256_of(parallel_->parameters());
    const auto shared = parallel_->consensus();  // all of the parameters, too
    bool is_finite = true;
    for (const at::Tensor& each : net_->parameters())
      is_finite &= each.isfinite().all().item<bool>();
    outcome_.is_finite[place()] = is_finite;
    outcome_.digests[place()] = sha256_of(net_->parameters());
  }

  std::size_t place() const { return static_cast<std::size_t>(job_.rank()); }

  const NanCell& cell_;
  Job& job_;
  DeviceMesh mesh_;
  nn::Sequential net_;
  Outcome& outcome_;
  std::unique_ptr<DataParallel> parallel_;
  torch::optim::SGD* optimizer_ = nullptr;
};

Outcome outcome_of(const NanCell& cell, const std::string& non_finite) {
  NanCell given = cell;
  given.options.non_finite = non_finite;
  const auto ranks = static_cast<std::size_t>(cell.ranks);
  Outcome outcome{std::vector<std::string>(ranks), std::vector<std::string>(ranks),
                  std::vector<std::string>(ranks), std::deque<bool>(ranks)};
  run_ranks(cell.ranks, {.servers = cell.servers}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    Program(given, job, !non_finite.empty(), outcome);
  });
  return outcome;
}

void expect_alike(const NanCell& cell, const Outcome& outcome) {
  for (std::size_t rank = 0; rank < outcome.digests.size(); ++rank) {
    EXPECT_TRUE(outcome.is_finite[rank]) << cell << ", rank " << rank;
    const std::size_t other = cell.layout.empty() ? 0 : rank;
    EXPECT_EQ(outcome.digests[rank], outcome.digests[other]) << cell << ", rank " << rank;
  }
}

TEST(NonFinite, InLockstepASkippedStepLeavesTheBitsOfARunWithoutIt) {
  for (const NanCell& cell : lockstep_cells()) {
    const Outcome expected = outcome_of(cell, ""), skipped = outcome_of(cell, "skip");
    expect_alike(cell, skipped);
    EXPECT_EQ(skipped.digests, expected.digests) << cell;
    EXPECT_EQ(skipped.own, expected.own) << cell;
    for (const std::string& text : skipped.texts) EXPECT_EQ(text, "") << cell;
  }
}

// The step that was refused has ended, so that a program may go on as if it had not been.
TEST(NonFinite, InLockstepAllRanksThrowAlikeAndMayGoOn) {
  for (const NanCell& cell : lockstep_cells()) {
    const Outcome expected = outcome_of(cell, ""), thrown = outcome_of(cell, "throw");
    for (const std::string& text : thrown.texts) {
      EXPECT_THAT(text, AllOf(HasSubstr("step 4"), HasSubstr("'"), HasSubstr("on rank "))) << cell;
      const char* const named = cell.layout.empty() ? "'4.bias' on rank 1" : "on rank ";
      EXPECT_THAT(text, HasSubstr(named)) << cell;
      EXPECT_EQ(text, thrown.texts[0]) << cell;
    }
    EXPECT_EQ(thrown.own, expected.own) << cell;
    expect_alike(cell, thrown);
  }
}

TEST(NonFinite, WhereNobodyWaitsARankLeavesOutItsOwnStep) {
  for (const NanCell& cell : other_cells()) {
    expect_alike(cell, outcome_of(cell, "skip"));
    const Outcome thrown = outcome_of(cell, "throw");
    EXPECT_EQ(thrown.texts[0], "") << cell;
    EXPECT_THAT(thrown.texts[1], AllOf(HasSubstr("step 4"), HasSubstr("'4.bias' on rank 1")));
    expect_alike(cell, thrown);
  }
}

// The rule leaves the rank's gradient out; all gradients together are what is looked at.
TEST(NonFinite, ARobustRuleBearsTheRank) {
  for (const char* non_finite : {"skip", "throw"}) {
    NanCell cell{"robust", with_buckets({.synchrony = "robust:rule=median"}), Ending::step, "", 3};
    Outcome outcome{std::vector<std::string>(3), std::vector<std::string>(3),
                    std::vector<std::string>(3), std::deque<bool>(3)};
    cell.options.non_finite = non_finite;
    SameEverywhere same;
    run_ranks(3, [&](Job& job) {
      Net net(at::kFloat);
      DataParallel parallel(net, job, cell.options);
      auto optimizer = sgd(net);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        const at::Tensor loss = loss_of(net, samples(10 * step + job.rank(), 4));
        parallel.backward(step == 1 && job.rank() == 1 ? loss * kNan : loss);
        EXPECT_TRUE(parallel.step(optimizer));
        EXPECT_EQ(parallel.last_step().skipped, 0);
      }
      EXPECT_TRUE(net.last->weight.isfinite().all().item<bool>());
      same.tell(non_finite, net.parameters());
    });
  }
}

TEST(NonFinite, SoManyStepsInARowEndTheRunByNameAndAGoodOneBeginsAgain) {
  for (const int stage : {0, 2}) {
    run_ranks(2, [&](Job& job) {
      Net net;
      DataParallel parallel(net, job,
                            {.non_finite = "skip", .non_finite_limit = 12, .zero_stage = stage});
      torch::optim::SGD optimizer(parallel.parameters(), 0.1);
      const auto step = [&](bool is_bad) {
        optimizer.zero_grad();
        const at::Tensor loss = loss_of(net, samples(job.rank(), 4));
        (is_bad && job.rank() == 1 ? loss * kNan : loss).backward();
        parallel.step(optimizer);
      };
      for (int round = 0; round < 2; ++round) {
        for (int k = 0; k < 11; ++k) step(true);
        step(false);
        EXPECT_FALSE(parallel.last_step().overflowed);
      }
      for (int k = 0; k < 11; ++k) step(true);
      EXPECT_THAT(misuse_of([&] { step(true); }),
                  AllOf(HasSubstr("step 36"), HasSubstr("'last.bias' on rank 1"),
                        HasSubstr("12 steps in a row"), HasSubstr("non_finite_limit")));
      EXPECT_EQ(parallel.last_step().skipped, 34);
    });
  }
}

TEST(NonFinite, ASumOfFiniteGradientsThatOverflowsIsNamedWithoutARank) {
  run_ranks(2, [](Job& job) {
    Net net(at::kFloat);
    DataParallel parallel(net, job, {.non_finite = "throw"});
    auto optimizer = sgd(net);
    net.second->weight.register_hook(
        [](const at::Tensor& gradient) { return at::full_like(gradient, 3e38); });
    parallel.weight(1e-3);  // shares are 1: the sum is made before it is divided
    loss_of(net, samples(job.rank(), 4)).backward();
    EXPECT_THAT(misuse_of([&] { parallel.step(optimizer); }),
                AllOf(HasSubstr("mean gradient of 'second.weight'"), HasSubstr("step 1")));
  });
}

TEST(NonFinite, AGradientThatIsInfiniteInAnEarlierPassOfTheStepCounts) {
  run_ranks(2, [](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.backward_passes_per_step = 2, .non_finite = "skip"});
    auto optimizer = sgd(net);
    const std::string before = sha256_of(net.parameters());
    const at::Tensor loss = loss_of(net, samples(job.rank(), 4));
    (job.rank() == 1 ? loss * kNan : loss).backward();
    loss_of(net, samples(2, 4)).backward();
    EXPECT_TRUE(parallel.step(optimizer));
    EXPECT_EQ(sha256_of(net.parameters()), before);
    EXPECT_EQ(parallel.last_step().skipped, 1);
  });
}

TEST(NonFinite, OtherWordsAndLimitsAreRefusedByName) {
  run_ranks(1, [](Job& job) {
    Net net;
    EXPECT_THAT(misuse_of([&] { DataParallel(net, job, {.non_finite = "ignore"}); }),
                AllOf(HasSubstr("non_finite"), HasSubstr("ignore"), HasSubstr("skip")));
    EXPECT_THAT(misuse_of([&] { DataParallel(net, job, {.non_finite_limit = 0}); }),
                HasSubstr("non_finite_limit is 0"));
  });
}

// A program that looks at nothing hears of a NaN where its norm is asked for.
TEST(NonFinite, ANormThatIsNoneIsRefusedOnAllRanksAlikeAndTrainingGoesOn) {
  for (const char* precision : {"none", "o2"}) {
    for (const int stage : {0, 2}) {
      if (stage > 0 && std::string(precision) == "o2") continue;
      for (const bool is_by_hand : {false, true}) {
        SameEverywhere same;
        run_ranks(2, [&](Job& job) {
          Net net(at::kFloat);
          DataParallel parallel(net, job,
                                {.precision = precision,
                                 .max_grad_norm = is_by_hand ? 0.0 : 1.0,
                                 .zero_stage = stage});
          torch::optim::SGD optimizer(parallel.parameters(), 0.1);
          const auto step = [&](bool is_bad) {
            optimizer.zero_grad();
            const at::Tensor loss = loss_of(net, samples(job.rank(), 4));
            (is_bad && job.rank() == 1 ? loss * kNan : loss).backward();
            if (is_by_hand) {
              parallel.synchronize();
              parallel.clip_grad_norm(1);
              if (std::string(precision) == "none") return optimizer.step(), void();
            }
            parallel.step(optimizer);
          };
          const auto digest = [&] {
            const auto whole = parallel.gathered();
            return sha256_of(net.parameters());
          };
          step(false);
          const std::string before = digest();
          const std::string text = misuse_of([&] { step(true); });
          EXPECT_THAT(text, AllOf(HasSubstr("step 2"), HasSubstr("'last.bias'"),
                                  HasSubstr("non_finite = \"skip\"")));
          EXPECT_THAT(text, ::testing::Not(HasSubstr("refuse_non_finite")));
          EXPECT_EQ(digest(), before);
          for (int k = 0; k < 3; ++k) step(false);
          EXPECT_NE(digest(), before);
          const auto whole = parallel.gathered();
          same.tell("parameters", net.parameters());
        });
      }
    }
  }
}

}  // namespace
}  // namespace paceline
