// A program's writes into the parameters between steps count, under every way to keep replicas in
// step, or are refused by name. Also covers paceline/torch/replica/parts/parameter_writes.h.
#include "paceline/torch/replica/parts/parameter_writes.h"

#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

struct Setting {
  std::string name;
  DataParallelOptions options = {};
  int servers = 0;
  double tolerance = 0;  // 0: the bits
};

Setting synchrony(const std::string& text, double tolerance, int servers = 0) {
  return {text, {.synchrony = text}, servers, tolerance};
}

// Those in which all ranks make each step together, in float64.
std::vector<Setting> lockstep_settings() {
  std::vector<Setting> all = {{"stage 0"}};
  for (int stage = 1; stage <= 3; ++stage)
    all.push_back({c10::str("stage ", stage), {.zero_stage = stage}});
  for (const char* text :
       {"local_sgd:period=2", "block_momentum:period=2", "elastic:period=2", "admm:period=2",
        "gossip", "push_sum", "none", "skeleton:period=2,core=0.5,share=0.8,mode=keep",
        "robust:rule=median,faulty=0"})
    all.push_back(synchrony(text, 1e-12));
  all.push_back(synchrony("bsp", 0, 2));
  all.push_back(synchrony("ssp:staleness=0,update=worker", 1e-12, 2));
  return all;
}

using Write = std::function<void(DataParallel&, TaskNet&, int rank, int step)>;

struct Course {
  int steps = 8;
  int first = 0;  // the step with which it begins, of the batches
  double rate = 0.1;
  std::optional<at::Tensor> start = {};
  Write before = {};  // a step
};

struct End {
  at::Tensor parameters;
  std::string error;  // empty: there was none
};

// Rank 0's parameters at the end, after finish() and in the consensus; the error of a rank.
End train(const Setting& setting, const Course& course, int ranks = 2) {
  End end;
  std::mutex mutex;
  try {
    test::run_ranks(ranks, {.servers = setting.servers}, [&](Job& job) {
      if (job.role() == Role::server) return serve(job);
      auto net = std::make_shared<TaskNet>("mlp");
      if (course.start) set_flat(*net, *course.start);
      DataParallel parallel(*net, job, setting.options);
      torch::optim::SGD optimizer(parallel.parameters(), torch::optim::SGDOptions(course.rate));
      for (int step = course.first; step < course.first + course.steps; ++step) {
        if (course.before) course.before(parallel, *net, job.rank(), step);
        optimizer.zero_grad();
        parallel.backward(net->loss(*SharedTask::even_batches(job.rank(), step)));
        parallel.step(optimizer);
      }
      if (course.before) course.before(parallel, *net, job.rank(), -1);
      parallel.finish();
      const auto consensus = parallel.consensus();
      const at::Tensor values = flat(*net).clone();
      if (job.rank() == 0) {
        const std::lock_guard lock(mutex);
        end.parameters = values;
      }
    });
  } catch (const Error& error) {
    end.error = error.what();
  }
  return end;
}

void write_all(TaskNet& net, const at::Tensor& values) {
  set_flat(net, values);
}

at::Tensor pretrained() {
  at::Generator generator = at::detail::createCPUGenerator(5);
  return at::randn({6 * 5 + 5 + 5 * 3 + 3}, generator, at::TensorOptions().dtype(at::kDouble))
      .mul(0.3);
}

// After four steps, at the end of a period, all ranks load other weights.
TEST(ParameterWrites, ATrainingGoesOnFromWhatAllRanksWroteAsOneThatBeganThere) {
  for (const Setting& setting : lockstep_settings()) {
    if (setting.name.starts_with("skeleton")) continue;  // its links follow the number of rounds
    for (const bool in_gathered : {false, true}) {
      const Write write = [&](DataParallel& parallel, TaskNet& net, int, int step) {
        if (step != 4) return;
        if (in_gathered) {
          const auto held = parallel.gathered();
          write_all(net, pretrained());
        } else {
          write_all(net, pretrained());
        }
      };
      const End written = train(setting, {.before = write});
      ASSERT_EQ(written.error, "") << setting.name;
      const End begun = train(setting, {.steps = 4, .first = 4, .start = pretrained()});
      if (setting.tolerance == 0) {
        EXPECT_TRUE(written.parameters.equal(begun.parameters)) << setting.name;
      } else {
        EXPECT_LE(difference(written.parameters, begun.parameters), setting.tolerance)
            << setting.name;
      }
    }
  }
}

// Clipped weights, as of a critic.
TEST(ParameterWrites, WeightsThatAreClippedAfterEachStepStayInTheirBounds) {
  constexpr double kBound = 0.05;
  for (const Setting& setting : lockstep_settings()) {
    const Write clip = [&](DataParallel&, TaskNet& net, int, int step) {
      if (step == 0) return;
      const at::NoGradGuard no_grad;
      for (at::Tensor& p : net.parameters()) p.clamp_(-kBound, kBound);
    };
    const End end = train(setting, {.before = clip});
    ASSERT_EQ(end.error, "") << setting.name;
    EXPECT_LE(end.parameters.abs().max().item<double>(), kBound * (1 + 1e-12)) << setting.name;
  }
}

// An average of the weights is looked at, and the weights come back.
TEST(ParameterWrites, WeightsThatAreSwappedForALookAndComeBackChangeNothing) {
  for (const Setting& setting : lockstep_settings()) {
    const Write look = [&](DataParallel&, TaskNet& net, int, int step) {
      if (step != 4) return;
      const at::Tensor own = flat(net).clone();
      write_all(net, pretrained());
      write_all(net, own);
    };
    const End undisturbed = train(setting, {}), swapped = train(setting, {.before = look});
    ASSERT_EQ(swapped.error, "") << setting.name;
    // A write begins a method's period again, and drops what neighbours are sending.
    if (setting.name.starts_with("block_momentum") || setting.name.starts_with("admm") ||
        setting.name.starts_with("elastic") || setting.name.starts_with("skeleton") ||
        setting.name.starts_with("gossip"))
      continue;
    if (setting.tolerance == 0) {
      EXPECT_TRUE(swapped.parameters.equal(undisturbed.parameters)) << setting.name;
    } else {
      EXPECT_LE(difference(swapped.parameters, undisturbed.parameters), setting.tolerance)
          << setting.name;
    }
  }
}

TEST(ParameterWrites, WhatOneRankWritesAloneIsToldAtTheNextStepWithRankAndParameter) {
  for (const char* kind : {"stage 0", "stage 1", "stage 2", "stage 3", "bsp"}) {
    Setting setting{kind};
    if (kind == std::string("bsp")) setting = synchrony("bsp", 0, 2);
    else setting.options.zero_stage = kind[6] - '0';
    const Write write = [](DataParallel& parallel, TaskNet& net, int rank, int step) {
      if (step != 4) return;
      const auto held = parallel.gathered();
      const at::NoGradGuard no_grad;
      if (rank == 1) net.last->weight.mul_(2);
    };
    const End end = train(setting, {.steps = 6, .before = write});
    EXPECT_THAT(end.error, AllOf(HasSubstr("'last.weight'"), HasSubstr("rank"))) << kind;
  }
}

TEST(ParameterWrites, ServersThatRanksReadAtDifferentStepsTakeWritesOverAtFinish) {
  for (const char* text : {"ssp:staleness=1", "asp", "bounded_delay:steps=1"}) {
    const Setting setting = synchrony(text, 0, 2);
    const Write write = [](DataParallel&, TaskNet& net, int, int step) {
      if (step == 4) write_all(net, pretrained());
    };
    EXPECT_THAT(train(setting, {.before = write}).error,
                AllOf(HasSubstr("'first.weight' was written between two steps"),
                      HasSubstr("call finish() before the next step")))
        << text;
    const Write write_and_finish = [&](DataParallel& parallel, TaskNet& net, int rank, int step) {
      write(parallel, net, rank, step);
      if (step == 4) parallel.finish();
    };
    const End end = train(setting, {.steps = 5, .rate = 0, .before = write_and_finish});
    EXPECT_EQ(end.error, "") << text;
    EXPECT_TRUE(end.parameters.equal(pretrained())) << text;
  }
}

TEST(ParameterWrites, WhoWaitsForNobodyAddsWhatItWroteToTheSumOfAll) {
  const Write write = [](DataParallel& parallel, TaskNet& net, int, int step) {
    if (step != 2) return;
    (void)parallel.consensus();  // all stand still
    write_all(net, pretrained());
  };
  const End end = train(synchrony("async_gossip", 0), {.steps = 4, .rate = 0, .before = write});
  EXPECT_EQ(end.error, "");
  EXPECT_LE(difference(end.parameters, pretrained()), 1e-12);
}

// --- memory that is not a parameter's own --------------------------------------------------------

// Two layers of one width.
struct TwoLayers : nn::Module {
  TwoLayers() {
    first = register_module("first", nn::Linear(4, 4));
    second = register_module("second", nn::Linear(4, 4));
    at::Generator generator = at::detail::createCPUGenerator(3);
    const at::NoGradGuard no_grad;
    for (auto& p : parameters()) p.copy_(at::randn(p.sizes(), generator));
  }
  at::Tensor loss(const at::Tensor& x) {
    return second(at::tanh(first(x))).to(at::kFloat).square().mean();
  }
  nn::Linear first{nullptr}, second{nullptr};
};

at::Tensor inputs(int rank, int step) {
  return samples(100 * rank + step, 4).x.narrow(1, 0, 4).to(at::kFloat);
}

// The model after three steps, on rank 0; `prepare` changes the model before DataParallel is made,
// `between` before the third step.
struct Trial {
  std::vector<at::Tensor> parameters;
  std::string error;
};
Trial try_out(const DataParallelOptions& options, const std::function<void(TwoLayers&)>& prepare,
              const std::function<void(TwoLayers&)>& between = {}) {
  Trial trial;
  std::mutex mutex;
  try {
    run_ranks(2, [&](Job& job) {
      auto net = std::make_shared<TwoLayers>();
      if (prepare) prepare(*net);
      DataParallel parallel(*net, job, options);
      torch::optim::SGD optimizer(parallel.parameters(), torch::optim::SGDOptions(0.1));
      for (int step = 0; step < 3; ++step) {
        if (between && step == 2) between(*net);
        optimizer.zero_grad();
        parallel.backward(net->loss(inputs(job.rank(), step).to(parallel.input_type())));
        parallel.step(optimizer);
      }
      const auto whole = parallel.gathered();
      const std::lock_guard lock(mutex);
      if (job.rank() != 0) return;
      for (const at::Tensor& p : net->parameters())
        trial.parameters.push_back(p.detach().clone().to(at::kFloat));
    });
  } catch (const Error& error) {
    trial.error = error.what();
  }
  return trial;
}

void expect_same_bits(const Trial& got, const Trial& expected, const std::string& what) {
  EXPECT_EQ(got.error, "") << what;
  ASSERT_EQ(got.parameters.size(), expected.parameters.size()) << what;
  for (std::size_t i = 0; i < got.parameters.size(); ++i)
    EXPECT_TRUE(got.parameters[i].equal(expected.parameters[i])) << what << ", tensor " << i;
}

TEST(ParameterWrites, OneTensorUnderTwoNamesStaysOneAtEveryStage) {
  const auto tie = [](TwoLayers& net) {
    struct Holder : nn::Module {};
    net.second->weight = net.first->weight;
    net.register_module("holder", std::make_shared<Holder>())
        ->register_parameter("tied", net.first->weight);
  };
  const Trial expected = try_out({}, tie);
  EXPECT_EQ(expected.error, "");
  for (int stage = 1; stage <= 3; ++stage)
    expect_same_bits(try_out({.zero_stage = stage}, tie), expected, c10::str("stage ", stage));
}

TEST(ParameterWrites, TwoParametersInOneStorageAreRefusedWhereTheyWouldBeParted) {
  const auto alias = [](TwoLayers& net) {
    net.second->weight.set_data(net.first->weight.detach());
  };
  EXPECT_EQ(try_out({}, alias).error, "");
  std::vector<DataParallelOptions> parting = {{.precision = "o2"}};
  for (int stage = 1; stage <= 3; ++stage) parting.push_back({.zero_stage = stage});
  for (const DataParallelOptions& options : parting) {
    EXPECT_THAT(try_out(options, alias).error,
                AllOf(HasSubstr("'first.weight' and 'second.weight' lie in one storage"),
                      HasSubstr("set_data(weight.clone())")))
        << options.precision << options.zero_stage;
  }
}

TEST(ParameterWrites, MemoryThatIsExchangedLaterIsTrainedOrRefused) {
  const auto exchange = [](TwoLayers& net) {
    net.first->weight.set_data(at::full_like(net.first->weight, 0.25));
  };
  const Trial expected = try_out({}, {}, exchange);
  EXPECT_EQ(expected.error, "");
  for (int stage = 1; stage <= 3; ++stage) {
    EXPECT_THAT(try_out({.zero_stage = stage}, {}, exchange).error,
                AllOf(HasSubstr("'first.weight' was given other memory"), HasSubstr("copy_()")))
        << stage;
  }
  EXPECT_EQ(try_out({.precision = "o2"}, {}, exchange).error, "");
}

// In 16 bits the masters take what was written, and keep what was not.
TEST(ParameterWrites, MastersFollowWhatIsWrittenIntoTheModel) {
  const auto write = [](TwoLayers& net) {
    const at::NoGradGuard no_grad;
    net.first->weight.fill_(0.25);
  };
  run_ranks(2, [&](Job& job) {
    auto net = std::make_shared<TwoLayers>();
    DataParallel parallel(*net, job, {.precision = "o2"});
    torch::optim::SGD optimizer(parallel.parameters(), torch::optim::SGDOptions(0.0));
    const auto step = [&](int k) {
      optimizer.zero_grad();
      parallel.backward(net->loss(inputs(job.rank(), k).to(parallel.input_type())));
      parallel.step(optimizer);
    };
    step(0);
    const at::Tensor bias = parallel.parameters("first.bias")[0].detach().clone();
    write(*net);
    step(1);
    EXPECT_TRUE(parallel.parameters("first.weight")[0].eq(0.25).all().item<bool>());
    EXPECT_TRUE(net->first->weight.eq(0.25).all().item<bool>());
    EXPECT_TRUE(parallel.parameters("first.bias")[0].equal(bias));
  });
}

}  // namespace
}  // namespace paceline
