// A program uses its model between the calls of a training. Each use ends in the bits of stage 0,
// and reads the numbers of stage 0, under every layout, stage and precision; or it is refused by
// name. docs/guide/combinations.md shows the table.
#include <ATen/autocast_mode.h>

#include <sstream>

#include "tests/support/nightly.h"
#include "tests/torch/parallel/split_training.h"

namespace paceline {
namespace {

struct Setting {
  std::string layout = "dp=2";
  int ranks = 2;
  std::string precision = "none";
  int stage = 0;
};

std::vector<Setting> settings_without_stage() {
  std::vector<Setting> all;
  for (const auto& [layout, ranks] :
       {std::pair("dp=2", 2), std::pair("tp=2", 2), std::pair("dp=2,tp=2", 4)})
    for (const char* precision : {"none", "o1", "o2", "o1:dtype=fp16,scale=64"})
      if (test::is_nightly() || layout == std::string("dp=2") || precision == std::string("none"))
        all.push_back({layout, ranks, precision});
  return all;
}

// One rank's view of a training, for the uses.
struct Turn {
  DataParallel& parallel;
  nn::Sequential& net;
  int rank, step;
  std::vector<double>& seen;         // on this rank
  std::vector<std::string>& errors;  // on this rank

  at::Tensor output() const {
    const auto scope = parallel.autocast();
    return net->forward(samples(77, 4).x.to(parallel.input_type()));
  }
  void see(const at::Tensor& value) const { seen.push_back(value.item<double>()); }
  void see_norms() const {
    for (const auto& each : net->named_parameters()) see(each.value().to(at::kDouble).norm());
  }
  void catching(const std::function<void()>& call) const {
    try {
      call();
    } catch (const std::exception& error) {
      errors.push_back(error.what());
    }
  }
};

// A program: what it does at the moments of a step.
struct Use {
  std::string name;
  bool writes = false;  // else the training's bits are those of one that does nothing
  std::function<void(const Turn&)> before_forward = {}, before_step = {}, between = {}, after = {};
  bool has_own_optimizer = false;       // synchronize(), then its own optimizers step
  bool has_two_optimizers = false;      // of a half of the parameters each
  std::string refusal_at_stage_3 = {};  // empty: it works there
};

at::Tensor as_double(const at::Tensor& one) {
  return one.detach().to(at::kDouble);
}

std::vector<Use> uses() {
  const auto write = [](const Turn& turn) {
    if (turn.step != 2) return;
    const at::NoGradGuard no_grad;
    for (at::Tensor& each : turn.net->parameters()) each.mul_(0.5);
  };
  const auto see_norms = [](const Turn& turn) { turn.see_norms(); };
  const auto evaluate = [](const Turn& turn) {
    const at::NoGradGuard no_grad;
    turn.see(as_double(turn.output()).sum());
  };
  std::vector<Use> all = {
      {.name = "weights are written", .writes = true, .before_forward = write},
      {.name = "weights are written in gathered()",
       .writes = true,
       .before_forward =
           [write](const Turn& turn) {
             const auto held = turn.parallel.gathered();
             write(turn);
           }},
      {.name = "weights are clipped after each step",
       .writes = true,
       .after =
           [](const Turn& turn) {
             const at::NoGradGuard no_grad;
             for (at::Tensor& each : turn.net->parameters()) each.clamp_(-0.2, 0.2);
           }},
      {.name = "norms are read before the forward pass", .before_forward = see_norms},
      {.name = "norms are read before the step", .before_step = see_norms},
      {.name = "norms are read between synchronize() and the own step",
       .between = see_norms,
       .has_own_optimizer = true},
      {.name = "an evaluation between synchronize() and the own step",
       .between = evaluate,
       .has_own_optimizer = true},
      {.name = "norms are read after the own step", .after = see_norms, .has_own_optimizer = true},
      {.name = "reads between the steps of two optimizers",
       .between = evaluate,
       .after = evaluate,
       .has_own_optimizer = true,
       .has_two_optimizers = true},
      {.name = "an evaluation after the step", .after = evaluate},
      {.name = "parallel.state() after the own step",
       .after =
           [](const Turn& turn) {
             for (const auto& each : turn.parallel.state()) turn.see(as_double(each.value()).sum());
           },
       .has_own_optimizer = true},
  };
  const auto save = [](const Turn& turn) {
    turn.catching([&] {
      for (const at::Tensor& each : turn.net->parameters()) {
        std::stringstream file;
        torch::save(each, file);
        at::Tensor back;
        torch::load(back, file);
        turn.see(as_double(back).sum());
      }
    });
  };
  all.push_back({.name = "torch::save() after the step",
                 .after = save,
                 .refusal_at_stage_3 = "parallel.save(file)"});
  all.push_back({.name = "an evaluation in another thread after the step",
                 .after =
                     [evaluate](const Turn& turn) {
                       turn.catching([&] {
                         std::exception_ptr failure;
                         std::thread([&] {
                           try {
                             evaluate(turn);
                           } catch (...) {
                             failure = std::current_exception();
                           }
                         }).join();
                         if (failure) std::rethrow_exception(failure);
                       });
                     },
                 .refusal_at_stage_3 = "parallel.gathered()"});
  return all;
}

struct Training {
  std::vector<at::Tensor> parameters;     // of rank 0, whole between replicas
  std::vector<std::vector<double>> seen;  // by rank
  std::vector<std::string> errors;        // of all ranks
};

Training train(const Use& use, const Setting& setting) {
  Training training;
  training.seen.resize(static_cast<std::size_t>(setting.ranks));
  std::mutex mutex;
  run_ranks(setting.ranks, [&](Job& job) {
    // The cache's lock, which all ranks of this process share, would be held over their waits.
    at::autocast::set_autocast_cache_enabled(false);
    DeviceMesh mesh(job, setting.layout);
    nn::Sequential net = layers_on(mesh);
    DataParallelOptions options{.precision = setting.precision, .zero_stage = setting.stage};
    DataParallel parallel(net, mesh, options);
    std::vector<std::string> errors;
    std::vector<std::unique_ptr<torch::optim::SGD>> optimizers;
    const auto add_optimizer = [&](const std::vector<std::string>& layers) {
      std::vector<at::Tensor> some;
      for (const std::string& layer : layers)
        for (const char* kind : {".weight", ".bias"})
          for (const at::Tensor& each : parallel.parameters(layer + kind)) some.push_back(each);
      optimizers.push_back(
          std::make_unique<torch::optim::SGD>(some, torch::optim::SGDOptions(0.1).momentum(0.9)));
    };
    use.has_two_optimizers ? add_optimizer({"0", "4"}) : add_optimizer({"0", "2", "4"});
    if (use.has_two_optimizers) add_optimizer({"2"});
    const int replica = mesh.rank("dp");
    for (int step = 0; step < 4; ++step) {
      const Turn turn{
          parallel, net, job.rank(), step, training.seen[static_cast<std::size_t>(job.rank())],
          errors};
      if (use.before_forward) use.before_forward(turn);
      for (const auto& each : optimizers) each->zero_grad();
      const Samples some = samples(step, 8).rows(4 * replica, 4 * replica + 4);
      parallel.backward(loss_of(parallel, net, some));
      if (use.before_step) use.before_step(turn);
      if (use.has_own_optimizer) {
        parallel.synchronize();
        if (use.between && !use.has_two_optimizers) use.between(turn);
        for (std::size_t k = 0; k < optimizers.size(); ++k) {
          optimizers[k]->step();
          if (use.between && use.has_two_optimizers && k == 0) use.between(turn);
        }
      } else {
        parallel.step(*optimizers.front());
      }
      if (use.after) use.after(turn);
    }
    const auto whole = parallel.gathered();
    const std::lock_guard lock(mutex);
    training.errors.insert(training.errors.end(), errors.begin(), errors.end());
    if (job.rank() == 0)
      for (const at::Tensor& each : net->parameters())
        training.parameters.push_back(each.detach().clone());
  });
  return training;
}

std::vector<int> stages_of(const Setting& setting) {
  if (setting.precision == "o2") return {0};
  return {0, 1, 2, 3};
}

void expect_same_bits(const Training& got, const Training& expected) {
  ASSERT_EQ(got.parameters.size(), expected.parameters.size());
  for (std::size_t i = 0; i < got.parameters.size(); ++i)
    EXPECT_TRUE(got.parameters[i].equal(expected.parameters[i])) << "tensor " << i;
}

TEST(ModelUse, EndsInTheBitsOfStage0AndReadsItsNumbersOrIsRefusedByName) {
  for (Setting setting : settings_without_stage()) {
    const Training untouched = train({}, setting);
    for (const Use& use : uses()) {
      SCOPED_TRACE(use.name + ", " + setting.layout + ", " + setting.precision);
      // There the step is a part of the training's call.
      const bool has_scale = setting.precision != "none" && setting.precision != "o1";
      if (use.has_own_optimizer && has_scale) continue;
      std::optional<Training> expected;
      for (const int stage : stages_of(setting)) {
        setting.stage = stage;
        SCOPED_TRACE(stage);
        const Training got = train(use, setting);
        if (stage == 0) {
          EXPECT_THAT(got.errors, testing::IsEmpty());
          if (!use.writes) expect_same_bits(got, untouched);
          expected = got;
          continue;
        }
        expect_same_bits(got, *expected);
        if (stage == 3 && !use.refusal_at_stage_3.empty() && setting.layout != "tp=2") {
          EXPECT_THAT(got.errors, testing::SizeIs(4 * setting.ranks));
          // The second one is libtorch's own, where an operator looks at the length of the memory.
          EXPECT_THAT(got.errors, testing::Each(testing::AnyOf(HasSubstr(use.refusal_at_stage_3),
                                                               HasSubstr("storage of size 0"))));
        } else {
          EXPECT_THAT(got.errors, testing::IsEmpty());
          EXPECT_EQ(got.seen, expected->seen);
        }
      }
      setting.stage = 0;
    }
  }
}

}  // namespace
}  // namespace paceline
