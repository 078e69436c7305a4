#include "training.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

#include "model.h"
#include "paceline/core/base/base.h"
#include "paceline/core/base/stopwatch.h"
#include "paceline/core/mesh/mesh.h"
#include "paceline/core/observe/observe.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/checkpoint/checkpoint.h"
#include "paceline/torch/parallel/parallel.h"
#include "text.h"

namespace tiny_gpt {
namespace {

namespace observe = paceline::observe;

constexpr std::int64_t kWarmUpSteps = 5;        // not timed
constexpr std::int64_t kHeldOutSequences = 64;  // of one evaluation

// The rows of a batch that this replica trains on: row r, r + dp, ...
at::Tensor own_rows(const at::Tensor& batch, paceline::DeviceMesh& mesh) {
  return batch.slice(0, mesh.rank("dp"), std::nullopt, mesh.size("dp"));
}

// The mean loss of the tokens that this rank has of these rows.
at::Tensor loss_of(Model& model, const at::Tensor& rows, paceline::DeviceMesh& mesh) {
  const std::int64_t length = rows.size(1) - 1;
  paceline::Communicator& context = mesh.group("cp");
  const auto own = [&](const at::Tensor& whole) {
    return context.size() == 1 ? whole : paceline::zigzag_part(whole, 1, context);
  };
  return model->loss(own(rows.narrow(1, 0, length)), own(rows.narrow(1, 1, length)));
}

// The mean loss of a character of the held-out text, in nats: always of the same sequences.
double held_out_loss(Model& model, const at::Tensor& sequences, paceline::DeviceMesh& mesh) {
  const torch::NoGradGuard no_grad;
  model->eval();
  const at::Tensor own = own_rows(sequences, mesh);
  double sum = 0;
  // All replicas make as many passes: with --zero 3 each gathers the parameters.
  const std::int64_t passes = (sequences.size(0) / mesh.size("dp") + 15) / 16;
  for (const at::Tensor& some : own.tensor_split(std::max<std::int64_t>(passes, 1)))
    sum += loss_of(model, some, mesh).item<double>() * static_cast<double>(some.size(0));
  model->train();
  return mesh.group("dp,cp").all_reduce(sum) /
         static_cast<double>(sequences.size(0) * mesh.size("cp"));
}

// The logits behind the last of these tokens. Where ranks share sequences, the first of them has
// it.
at::Tensor last_logits(Model& model, const at::Tensor& tokens, paceline::DeviceMesh& mesh) {
  paceline::Communicator& context = mesh.group("cp");
  if (context.size() == 1) return model->last_logits(tokens);
  at::Tensor logits = model->last_logits(paceline::zigzag_part(tokens, 1, context)).contiguous();
  context.broadcast(paceline::buffer_of(logits)).wait();
  return logits;
}

// Draws one character after the other from what the model expects. Every rank draws the same.
std::string sample(Model& model, const Text& text, const RunOptions& options,
                   paceline::DeviceMesh& mesh) {
  const torch::NoGradGuard no_grad;
  model->eval();
  auto generator = at::detail::createCPUGenerator(options.seed);
  // The model always sees a whole sequence, as it did in training.
  at::Tensor seen = text.training.slice(0, 0, options.model.length).clone();
  std::vector<at::Tensor> drawn;
  for (std::int64_t i = 0; i < options.sample; ++i) {
    const at::Tensor logits = last_logits(model, seen.unsqueeze(0), mesh);
    const at::Tensor next = at::multinomial(logits.softmax(-1), 1, false, generator).flatten();
    drawn.push_back(next);
    seen = at::cat({seen.slice(0, 1), next});
  }
  return text.text_of(at::cat(drawn));
}

// A run of training; its figures are those of all ranks.
class Training {
 public:
  Training(paceline::Job& job, const RunOptions& options)
      : options_(options),
        tells_(job.rank() == 0),
        text_(read_text(options.text, 10 * (options.model.length + 2))),
        mesh_(job,
              options.layout.empty() ? "dp=" + std::to_string(job.world_size()) : options.layout),
        model_(make_model()),
        parallel_(*model_, mesh_,
                  {.dropout_seed = options.seed,
                   .non_finite = options.non_finite,
                   .zero_stage = options.zero_stage}),
        optimizer_(parallel_.parameters(), torch::optim::AdamWOptions(options.learning_rate)) {
    if (!options.checkpoint_dir.empty()) {
      checkpoints_.emplace(
          job, options.checkpoint_dir,
          paceline::CheckpointOptions{.every = options.checkpoint_every, .resume = options.resume});
      checkpoints_->add("model", model_);
      checkpoints_->add("optimizer", optimizer_);
      checkpoints_->add("parallel", parallel_);
    }
    if (!options.metrics.empty() && tells_) metrics_.emplace(options.metrics);
    if (tells_) {
      progress_.emplace(stdout, options.steps,
                        observe::ProgressOptions{.live = observe::is_terminal(stdout)});
    }
  }

  int run() {
    const std::int64_t first = checkpoints_ ? checkpoints_->resume() : 0;
    const at::Tensor held_out =
        sequences(text_.held_out, kHeldOutSequences, options_.model.length, options_.seed, 0);
    for (std::int64_t step = first + 1; step <= options_.steps; ++step) {
      make_step(step, first);
      if (checkpoints_) checkpoints_->save_if_due(step);
      if (checkpoints_ && checkpoints_->stopping()) return checkpoints_->finish();
      if (step % options_.evaluate_every != 0 && step != options_.steps) continue;
      if (progress_) progress_->pause();
      held_out_loss_ = held_out_loss(model_, held_out, mesh_);
      write({{"event", "evaluation"}, {"step", step}, {"held_out_loss", held_out_loss_}});
    }
    progress_.reset();
    if (checkpoints_ && options_.steps % options_.checkpoint_every != 0)
      checkpoints_->save(options_.steps);
    tell(first);
    return checkpoints_ ? checkpoints_->finish() : 0;
  }

 private:
  Model make_model() {
    if (options_.threads > 0) at::set_num_threads(options_.threads);
    options_.model.vocabulary = text_.vocabulary();
    torch::manual_seed(options_.seed);
    Model model(options_.model);
    if (options_.dtype == "float64") model->to(at::kDouble);
    const bool is_sequence_parallel = options_.is_sequence_parallel;
    if (is_sequence_parallel && options_.model.length / mesh_.size("cp") % mesh_.size("tp") != 0) {
      throw paceline::Error({paceline::Fault::misuse,
                             "--sequence-parallel splits a --length that tp divides, and " +
                                 std::to_string(mesh_.size("tp")) + " does not divide " +
                                 std::to_string(options_.model.length),
                             {}});
    }
    model->share_sequences(mesh_.group("cp"));
    paceline::parallelize(*model, mesh_, plan_of(options_.model, is_sequence_parallel));
    return model;
  }

  // The rate rises in the first tenth of the steps, because Adam's first moments are unsure, and
  // falls to a tenth until the last one.
  void set_learning_rate(std::int64_t step) {
    const double all = static_cast<double>(options_.steps), done = static_cast<double>(step) / all;
    const double share = done < 0.1 ? done / 0.1 : 1 - 0.9 * (done - 0.1) / 0.9;
    for (auto& group : optimizer_.param_groups())
      group.options().set_lr(options_.learning_rate * share);
  }

  void make_step(std::int64_t step, std::int64_t first) {
    const at::Tensor own = own_rows(
        sequences(text_.training, options_.batch_size, options_.model.length, options_.seed, step),
        mesh_);
    const paceline::Stopwatch watch;
    set_learning_rate(step);
    optimizer_.zero_grad();
    parallel_.weight(static_cast<double>(own.size(0)));
    at::Tensor of_own_rows;
    if (own.size(0) > 0) {
      of_own_rows = loss_of(model_, own, mesh_);
      of_own_rows.backward();
    }
    if (of_own_rows.defined() && options_.non_finite.empty() &&
        !std::isfinite(of_own_rows.item<double>())) {
      throw paceline::Error({paceline::Fault::misuse,
                             "the loss of step " + std::to_string(step) +
                                 " is not finite: take a smaller --learning-rate",
                             {}});
    }
    parallel_.synchronize();
    parallel_.clip_grad_norm(options_.max_grad_norm);
    optimizer_.step();
    const double loss = parallel_.mean(of_own_rows).item<double>();  // of the global batch
    if (std::isfinite(loss))                                         // else the step was left out
      train_loss_ = step == first + 1 ? loss : 0.98 * train_loss_ + 0.02 * loss;
    if (step > first + kWarmUpSteps) seconds_ += watch.seconds();
    if (progress_) progress_->update(step, options_.batch_size, loss);
    write({{"event", "step"}, {"step", step}, {"loss", loss}});
  }

  void write(const observe::Metrics& metrics) {
    if (metrics_) metrics_->write(metrics);
  }

  std::string whole_sha256() {
    const auto whole = parallel_.gathered();
    return paceline::whole_sha256(*model_);
  }

  void tell(std::int64_t first) {
    const std::int64_t timed = std::max<std::int64_t>(options_.steps - first - kWarmUpSteps, 0);
    const double rate =
        seconds_ > 0 ? static_cast<double>(timed * options_.batch_size) / seconds_ : 0;
    const std::string sha256 = whole_sha256();
    const std::string written =
        options_.sample > 0 ? sample(model_, text_, options_, mesh_) : std::string();
    write({{"event", "summary"},
           {"world_size", std::int64_t{mesh_.world().size()}},
           {"layout", mesh_.layout().text()},
           {"zero_stage", std::int64_t{options_.zero_stage}},
           {"steps", options_.steps},
           {"skipped_steps", parallel_.last_step().skipped},
           {"train_loss", train_loss_},
           {"held_out_loss", held_out_loss_},
           {"train_samples_per_second", rate},
           {"parameters_sha256", sha256}});
    if (!tells_) return;
    std::printf(
        "trained on %lld characters (%lld different) for %lld steps, layout %s: train loss %.3f, "
        "held-out loss %.3f nats a character, %.0f sequences/s\n",
        static_cast<long long>(text_.training.numel()), static_cast<long long>(text_.vocabulary()),
        static_cast<long long>(options_.steps), mesh_.layout().text().c_str(), train_loss_,
        held_out_loss_, rate);
    if (!written.empty()) std::printf("---\n%s\n---\n", written.c_str());
  }

  RunOptions options_;
  const bool tells_;
  Text text_;
  paceline::DeviceMesh mesh_;
  Model model_;
  paceline::DataParallel parallel_;
  torch::optim::AdamW optimizer_;
  std::optional<paceline::Checkpoints> checkpoints_;
  std::optional<observe::MetricsFile> metrics_;  // rank 0's
  std::optional<observe::Progress> progress_;    // rank 0's
  double train_loss_ = 0, held_out_loss_ = 0;    // nats a character; the first one smoothed
  double seconds_ = 0;                           // of the timed steps
};

}  // namespace

int train(paceline::Job& job, const RunOptions& options) {
  return Training(job, options).run();
}

}  // namespace tiny_gpt
