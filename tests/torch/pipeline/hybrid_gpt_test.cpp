// A small GPT in fp64, trained on every layout of replicas, stages, split layers and shared
// sequences, against one process (covers pipeline_training.h and made_stages.h).
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "examples/05_tiny_gpt/layers.h"
#include "tests/support/every_pair.h"
#include "tests/support/nightly.h"
#include "tests/torch/pipeline/small_pipelines.h"

namespace paceline::pipeline_tests {
namespace {

constexpr std::size_t kSteps = 10;
constexpr std::int64_t kRows = 12;
constexpr double kMaxNorm = 0.5;  // about half of the norm of the gradients

struct Case {
  int dp = 1, cp = 1, pp = 1, tp = 1;
  int zero_stage = 0;
  int micro_batches = 1;
  std::string schedule = "1f1b";
  std::string recompute = "none";
  double dropout = 0;

  int ranks() const { return dp * cp * pp * tp; }
  std::string layout() const { return c10::str("dp=", dp, ",cp=", cp, ",pp=", pp, ",tp=", tp); }
  test::Settings settings() const {
    const auto text = [](auto value) { return c10::str(value); };
    return {text(dp), text(cp),  text(pp),     text(tp), text(zero_stage), text(micro_batches),
            schedule, recompute, text(dropout)};
  }
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.layout() << ", zero_stage " << one.zero_stage << ", " << one.schedule << ", "
       << one.micro_batches << " micro-batches, recompute " << one.recompute << ", dropout "
       << one.dropout;
}

struct Outcome {
  std::vector<double> losses, norms;
  torch::OrderedDict<std::string, at::Tensor> state;
};

Outcome train_gpt(Job& job, const Case& one) {
  at::set_num_threads(1);  // else each of the ranks, which are threads, has workers that spin
  const tiny_gpt::Options config{.vocabulary = 101,
                                 .length = 32,
                                 .features = 64,
                                 .heads = 4,
                                 .kv_heads = 4,
                                 .layers = 2,
                                 .dropout = one.dropout};
  DeviceMesh mesh(job, one.layout());
  tiny_gpt::Head head{nullptr};  // where the last stage is
  PipelineOptions options = options_of(one.schedule, one.micro_batches);
  options.recompute = one.recompute;
  options.loss = [&head](const at::Tensor& logits, const at::Tensor& targets) {
    return head->loss(logits, targets);
  };
  options.optimizer = [](std::vector<at::Tensor> parameters) {
    return std::make_unique<torch::optim::Adam>(std::move(parameters),
                                                torch::optim::AdamOptions(3e-3));
  };
  if (one.tp > 1) options.tensor_plan = plan_of(config, /*is_sequence_parallel=*/false);
  options.training.max_grad_norm = kMaxNorm;
  options.training.zero_stage = one.zero_stage;
  Pipeline pipeline(layers_of(config, 7, at::kDouble, mesh, head, /*ties_head=*/true), mesh,
                    options);
  Outcome outcome;
  for (std::size_t step = 0; step < kSteps; ++step) {
    auto generator = at::detail::createCPUGenerator(100 + step);
    const at::Tensor words =
        at::randint(config.vocabulary, {kRows, config.length + 1}, generator, at::kLong)
            .slice(0, mesh.rank("dp"), std::nullopt, one.dp);
    const auto own = [&](std::int64_t from) {
      const at::Tensor part = words.narrow(1, from, config.length);
      return one.cp == 1 ? part : zigzag_part(part, 1, mesh.group("cp"));
    };
    outcome.losses.push_back(pipeline.step(own(0), own(1)));
    outcome.norms.push_back(pipeline.last_step().grad_norm);
  }
  pipeline.finish();
  outcome.state = pipeline.state();
  return outcome;
}

// Masks of dropout are those of a micro-batch, so that one process has as many of them.
const Outcome& outcome_of_one_process(double dropout, int micro_batches) {
  static std::map<std::pair<double, int>, Outcome> known;
  const auto [place, is_new] = known.try_emplace({dropout, micro_batches});
  if (is_new) {
    run_ranks(1, [&, at = place](Job& job) {
      at->second = train_gpt(job, {.micro_batches = micro_batches, .dropout = dropout});
    });
  }
  return place->second;
}

class HybridGpt : public ::testing::TestWithParam<Case> {};

TEST_P(HybridGpt, TrainsAsOneProcessDoes) {
  const Case& one = GetParam();
  const Outcome& expected =
      outcome_of_one_process(one.dropout, one.dropout > 0 ? one.micro_batches : 1);
  run_ranks(one.ranks(), [&](Job& job) {
    const Outcome outcome = train_gpt(job, one);
    for (std::size_t step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(outcome.losses[step], expected.losses[step], 1e-9) << "step " << step;
      EXPECT_NEAR(outcome.norms[step] / expected.norms[step], 1, 1e-10) << "step " << step;
    }
    ASSERT_EQ(outcome.state.keys(), expected.state.keys());
    for (const auto& each : expected.state) {
      const at::Tensor difference = (outcome.state[each.key()] - each.value()).abs().max();
      EXPECT_LE(difference.item<double>(), 1e-8 * each.value().abs().max().item<double>())
          << each.key();
    }
  });
}

// Six layers make up to six stages; masks are those of one process where micro-batches of all
// replicas are alike.
bool is_legal(const Case& one) {
  const bool is_interleaved = one.schedule.starts_with("interleaved");
  const std::int64_t rows = kRows / one.dp;
  return one.ranks() <= 8 && one.pp > 1 && one.pp * (is_interleaved ? 2 : 1) <= 6 &&
         !(is_interleaved && one.micro_batches % one.pp != 0) &&
         !(one.dropout > 0 && rows % one.micro_batches != 0);
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const int pp : {2, 4})
    for (const int dp : {1, 2, 4})
      for (const int tp : {1, 2, 4})
        for (const int cp : {1, 2})
          for (const int zero_stage : {0, 1})
            for (const int micro_batches : {1, 2, 3})
              for (const char* const schedule :
                   {"sequential", "gpipe", "1f1b", "interleaved:chunks=2", "zero_bubble"})
                for (const char* const recompute : {"none", "full"})
                  for (const double dropout : {0.0, 0.2}) {
                    const Case one{dp,       cp,        pp,     tp, zero_stage, micro_batches,
                                   schedule, recompute, dropout};
                    if (is_legal(one)) all.push_back(one);
                  }
  return all;
}

std::vector<Case> cases() {
  const std::vector<Case> all = all_cases();
  if (test::is_nightly()) return all;
  std::vector<test::Settings> settings;
  for (const Case& each : all) settings.push_back(each.settings());
  std::vector<Case> some;
  for (const std::size_t at : test::every_pair(settings)) some.push_back(all[at]);
  return some;
}

INSTANTIATE_TEST_SUITE_P(Layouts, HybridGpt, ::testing::ValuesIn(cases()));

}  // namespace
}  // namespace paceline::pipeline_tests
