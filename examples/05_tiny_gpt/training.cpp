#include "training.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "../device_choice.h"
#include "paceline/train.h"
#include "stage_options.h"
#include "text.h"
#include "trainee.h"

namespace tiny_gpt {
namespace {

namespace observe = paceline::observe;

constexpr std::int64_t kWarmUpSteps = 5;        // not timed
constexpr std::int64_t kHeldOutSequences = 64;  // of one evaluation

// The rows of a batch that this replica trains on: row r, r + dp, ...
at::Tensor own_rows(const at::Tensor& batch, paceline::DeviceMesh& mesh) {
  return batch.slice(0, mesh.rank("dp"), std::nullopt, mesh.size("dp"));
}

// The mean loss of a character of the held-out text, in nats: always of the same sequences.
double held_out_loss(Trainee& model, const at::Tensor& sequences, paceline::DeviceMesh& mesh) {
  const torch::NoGradGuard no_grad;
  model.train(false);
  const at::Tensor own = own_rows(sequences, mesh);
  double sum = 0;
  // All replicas make as many passes: with --zero 3 each gathers the parameters.
  const std::int64_t passes = (sequences.size(0) / mesh.size("dp") + 15) / 16;
  for (const at::Tensor& some : own.tensor_split(std::max<std::int64_t>(passes, 1)))
    sum += model.loss_of(some) * static_cast<double>(some.size(0));
  model.train(true);
  return mesh.group("dp,cp").all_reduce(sum) /
         static_cast<double>(sequences.size(0) * mesh.size("cp"));
}

// Draws one character after the other from what the model expects. Every rank draws the same.
std::string sample(Trainee& model, const Text& text, const RunOptions& options) {
  const torch::NoGradGuard no_grad;
  model.train(false);
  auto generator = at::detail::createCPUGenerator(options.seed);
  // The model always sees a whole sequence, as it did in training.
  at::Tensor seen = text.training.slice(0, 0, options.model.length).clone();
  std::vector<at::Tensor> drawn;
  for (std::int64_t i = 0; i < options.sample; ++i) {
    const at::Tensor logits = model.last_logits(seen.unsqueeze(0));
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
        mesh_(job, layout_of(options, job.world_size())),
        model_(make_model()) {
    if (!options.checkpoint_dir.empty()) {
      checkpoints_.emplace(
          job, options.checkpoint_dir,
          paceline::CheckpointOptions{.every = options.checkpoint_every, .resume = options.resume});
      model_->add_to(*checkpoints_);
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
      held_out_loss_ = held_out_loss(*model_, held_out, mesh_);
      write({{"event", "evaluation"}, {"step", step}, {"held_out_loss", held_out_loss_}});
    }
    progress_.reset();
    if (checkpoints_ && options_.steps % options_.checkpoint_every != 0)
      checkpoints_->save(options_.steps);
    tell(first);
    return checkpoints_ ? checkpoints_->finish() : 0;
  }

 private:
  std::unique_ptr<Trainee> make_model() {
    if (options_.threads > 0) at::set_num_threads(options_.threads);
    options_.model.vocabulary = text_.vocabulary();
    const bool is_sequence_parallel = options_.is_sequence_parallel;
    if (is_sequence_parallel && options_.model.length / mesh_.size("cp") % mesh_.size("tp") != 0) {
      throw paceline::Error({paceline::Fault::misuse,
                             "--sequence-parallel splits a --length that tp divides, and " +
                                 std::to_string(mesh_.size("tp")) + " does not divide " +
                                 std::to_string(options_.model.length),
                             {}});
    }
    const at::Device device = chosen_device(options_.device, mesh_.job(), option_of_the_host());
    return pipeline_option_of(options_).empty() ? make_whole_model(options_, mesh_, device)
                                                : make_staged_model(options_, mesh_);
  }

  // An option that was given and works in host memory alone; empty: none was.
  std::string option_of_the_host() {
    if (const std::string asked = pipeline_option_of(options_); !asked.empty()) return asked;
    if (mesh_.size("tp") * mesh_.size("cp") > 1) return "--layout " + options_.layout;
    if (options_.zero_stage > 0) return "--zero " + std::to_string(options_.zero_stage);
    return {};
  }

  // The rate rises in the first tenth of the steps, because Adam's first moments are unsure, and
  // falls to a tenth until the last one.
  double rate_of(std::int64_t step) const {
    const double all = static_cast<double>(options_.steps), done = static_cast<double>(step) / all;
    const double share = done < 0.1 ? done / 0.1 : 1 - 0.9 * (done - 0.1) / 0.9;
    return options_.learning_rate * share;
  }

  void make_step(std::int64_t step, std::int64_t first) {
    const at::Tensor own = own_rows(
        sequences(text_.training, options_.batch_size, options_.model.length, options_.seed, step),
        mesh_);
    const paceline::Stopwatch watch;
    const double loss = model_->step(own, step, rate_of(step));  // of the global batch
    if (std::isfinite(loss))  // else the step was left out, or its loss comes back later
      train_loss_ = train_loss_ == 0 ? loss : 0.98 * train_loss_ + 0.02 * loss;
    if (step > first + kWarmUpSteps) seconds_ += watch.seconds();
    if (progress_) progress_->update(step, options_.batch_size, loss);
    write({{"event", "step"}, {"step", step}, {"loss", loss}});
  }

  void write(const observe::Metrics& metrics) {
    if (metrics_) metrics_->write(metrics);
  }

  void tell(std::int64_t first) {
    const std::int64_t timed = std::max<std::int64_t>(options_.steps - first - kWarmUpSteps, 0);
    const double rate =
        seconds_ > 0 ? static_cast<double>(timed * options_.batch_size) / seconds_ : 0;
    const std::string sha256 = model_->sha256();
    const std::string written =
        options_.sample > 0 ? sample(*model_, text_, options_) : std::string();
    observe::Metrics summary = {{"event", "summary"},
                                {"world_size", std::int64_t{mesh_.world().size()}},
                                {"layout", mesh_.layout().text()},
                                {"zero_stage", std::int64_t{options_.zero_stage}},
                                {"steps", options_.steps},
                                {"train_loss", train_loss_},
                                {"held_out_loss", held_out_loss_},
                                {"train_samples_per_second", rate},
                                {"parameters_sha256", sha256}};
    for (auto& figure : model_->figures()) summary.push_back(figure);
    write(summary);
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
  const std::unique_ptr<Trainee> model_;
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
