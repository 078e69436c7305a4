// A small GPT in fp64 on every layout against one process.
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/nightly.h"
#include "tests/torch/tensor/small_gpt.h"

namespace paceline::tensor_test {
namespace {

constexpr int kSteps = 10;
// About half of the norm of the gradients, so that clipping scales them.
constexpr double kMaxNorm = 0.5;

// The loss of the rows and tokens that this rank has.
at::Tensor own_loss_of(tiny_gpt::Model& model, const at::Tensor& words, DeviceMesh& mesh) {
  const at::Tensor rows = words.slice(0, mesh.rank("dp"), std::nullopt, mesh.size("dp"));
  Communicator& context = mesh.group("cp");
  if (context.size() == 1) return loss_of(model, rows);
  return model->loss(zigzag_part(rows.narrow(1, 0, kGpt.length), 1, context),
                     zigzag_part(rows.narrow(1, 1, kGpt.length), 1, context));
}

struct Outcome {
  std::vector<double> losses, norms;
  std::vector<at::Tensor> clipped;     // the gradients of the last step
  std::vector<at::Tensor> parameters;  // after it
};

Outcome outcome_of_one_process(double dropout) {
  Outcome outcome;
  test::run_ranks(1, [&](Job& job) {
    tiny_gpt::Model model = model_of_seed(dropout);
    DataParallel parallel(*model, job);
    auto optimizer = adam(model);
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      const at::Tensor loss = loss_of(model, words_of(step));
      loss.backward();
      parallel.synchronize();
      outcome.losses.push_back(loss.item<double>());
      outcome.norms.push_back(clip_grad_norm(model->parameters(), kMaxNorm));
      optimizer.step();
    }
    for (const at::Tensor& each : model->parameters()) {
      outcome.clipped.push_back(each.grad().clone());
      outcome.parameters.push_back(each.detach().clone());
    }
  });
  return outcome;
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

// The gradient of a parameter of which each rank of the group has the next piece.
at::Tensor joined_gradient(const at::Tensor& parameter, const std::vector<at::Tensor>& pieces,
                           Communicator& group) {
  const auto rank = static_cast<std::size_t>(group.rank());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(group.size()));
  for (const at::Tensor& piece : pieces) lengths[rank] += piece.numel();
  group.all_reduce(buffer_of(lengths)).wait();
  const at::Tensor whole = at::zeros({parameter.numel()}, at::kDouble);
  std::int64_t begin = std::accumulate(lengths.begin(), lengths.begin() + group.rank(), 0L);
  for (const at::Tensor& piece : pieces) {
    whole.narrow(0, begin, piece.numel()).copy_(piece.grad().flatten());
    begin += piece.numel();
  }
  EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), 0L), parameter.numel());
  group.all_reduce(buffer_of(whole)).wait();
  return whole.view(parameter.sizes());
}

struct Case {
  std::string layout;
  int ranks;
  bool is_sequence_parallel = false;
  double dropout = 0;
  int zero_stage = 0;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.layout << (one.is_sequence_parallel ? ", sequence parallel" : "")
       << (one.dropout > 0 ? ", dropout" : "") << ", zero_stage " << one.zero_stage;
}

void train_and_compare(Job& job, const Case& one, const Outcome& expected) {
  DeviceMesh mesh(job, one.layout);
  tiny_gpt::Model model = model_of_seed(one.dropout);
  model->share_sequences(mesh.group("cp"));
  parallelize(*model, mesh, plan_of(kGpt, one.is_sequence_parallel));
  DataParallel parallel(*model, mesh, {.check_replicas_every = 1, .zero_stage = one.zero_stage});
  torch::optim::Adam optimizer(parallel.parameters(), kAdam);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = own_loss_of(model, words_of(step), mesh);
    loss.backward();
    ASSERT_TRUE(parallel.synchronize());
    const auto place = static_cast<std::size_t>(step);
    EXPECT_NEAR(parallel.mean(loss.detach()).item<double>(), expected.losses[place], 1e-9)
        << "step " << step;
    EXPECT_NEAR(parallel.clip_grad_norm(kMaxNorm) / expected.norms[place], 1, 1e-10)
        << "step " << step;
    optimizer.step();
  }
  const auto whole = parallel.gathered();
  const auto placements = tensor::placements_of(*model);
  const auto parameters = model->named_parameters();
  Communicator& replicas = mesh.group("dp,cp");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& each = parameters[i].value();
    const bool has_pieces = one.zero_stage > 0 && replicas.size() > 1;
    const at::Tensor gradient =
        has_pieces ? joined_gradient(each, parallel.parameters(parameters[i].key()), replicas)
                   : each.grad();
    EXPECT_LE(relative(placements.gathered(each, gradient), expected.clipped[i]), 1e-10)
        << "gradient of " << parameters[i].key();
    EXPECT_LE(relative(placements.gathered(each, each.detach()), expected.parameters[i]), 1e-8)
        << parameters[i].key();
  }
}

class TinyGpt : public testing::TestWithParam<Case> {};

TEST_P(TinyGpt, TrainsAsOneProcessDoes) {
  static const Outcome plain = outcome_of_one_process(0);
  static const Outcome with_dropout = outcome_of_one_process(kDropout);
  const Outcome& expected = GetParam().dropout > 0 ? with_dropout : plain;
  test::run_ranks(GetParam().ranks,
                  [&](Job& job) { train_and_compare(job, GetParam(), expected); });
}

// Every pair of axes is tried by day, and every layout of up to 8 ranks in the night.
std::vector<Case> cases() {
  if (!test::is_nightly()) {
    return {{"tp=1", 1},
            {"dp=2", 2},
            {"tp=2", 2},
            {"tp=2", 2, true},
            {"tp=4", 4},
            {"tp=4", 4, true},
            {"dp=2,tp=2", 4},
            {"dp=2,tp=2", 4, true},
            {"dp=2,tp=4", 8, true},
            {"dp=4", 4, false, kDropout},
            {"dp=2,tp=2", 4, false, kDropout},
            {"dp=2,tp=2", 4, true, kDropout},
            {"cp=2", 2, false, kDropout},
            {"cp=4", 4},
            {"dp=2,cp=2", 4, false, kDropout},
            {"cp=2,tp=2", 4, true, kDropout},
            {"dp=2", 2, false, kDropout, 3},
            {"dp=2,tp=2", 4, true, kDropout, 1},
            {"dp=2,tp=2", 4, false, 0, 2},
            {"dp=2,tp=2", 4, true, 0, 3},
            {"dp=2,cp=2", 4, false, 0, 3},
            {"dp=2,tp=4", 8, false, kDropout, 3}};
  }
  std::vector<Case> all;
  for (const int tp : {1, 2, 4}) {
    for (const int cp : {1, 2, 4}) {
      for (int dp = 1; dp * cp * tp <= 8; ++dp) {
        if (kBatch % dp != 0) continue;  // replicas of one weight
        for (const bool is_sequence_parallel : {false, true})
          for (const double dropout : {0.0, kDropout})
            for (const int zero_stage : {0, 1, 2, 3})
              all.push_back({c10::str("dp=", dp, ",cp=", cp, ",tp=", tp), dp * cp * tp,
                             is_sequence_parallel, dropout, zero_stage});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Layouts, TinyGpt, testing::ValuesIn(cases()));

}  // namespace
}  // namespace paceline::tensor_test
