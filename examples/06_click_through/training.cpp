#include "training.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

#include "../support/click_scores.h"
#include "click_data.h"
#include "model.h"
#include "paceline/train.h"

namespace click_through {
namespace {

namespace observe = paceline::observe;

constexpr std::int64_t kWarmUpSteps = 5;  // not timed

[[noreturn]] void throw_not_finite(const std::string& what) {
  paceline::throw_misuse(what + " is not finite: take a smaller --learning-rate or --table-rate");
}

// A run of training; its figures are those of all ranks.
class Training {
 public:
  Training(paceline::Job& job, const RunOptions& options)
      : job_(job),
        options_(options),
        tells_(job.rank() == 0),
        data_(load(options)),
        batches_({.samples = std::ssize(data_.training),
                  .batch_size = options.batch,
                  .seed = options.seed,
                  .rank = job.rank(),
                  .world_size = job.world_size()}),
        steps_(options.epochs * batches_.per_epoch()),
        tables_(job, options),
        model_(make_model()),
        parallel_(model_, job),
        optimizer_(model_->parameters(), torch::optim::AdamOptions(options.learning_rate)) {
    if (!options.checkpoint_dir.empty()) add_checkpoints();
    if (!options.metrics.empty() && tells_) metrics_.emplace(options.metrics);
    if (tells_) {
      progress_.emplace(stdout, steps_,
                        observe::ProgressOptions{.live = observe::is_terminal(stdout)});
    }
  }

  int run() {
    const std::int64_t first = checkpoints_ ? checkpoints_->resume() : 0;
    if (first < steps_) take_batch(first);
    for (std::int64_t step = first + 1; step <= steps_; ++step) {
      make_step(step, first);
      if (checkpoints_) checkpoints_->save_if_due(step);
      if (checkpoints_ && checkpoints_->stopping()) return checkpoints_->finish();
      if (step % batches_.per_epoch() == 0) evaluate(step);
    }
    if (first >= steps_) evaluate(steps_);
    progress_.reset();
    if (checkpoints_ && steps_ % options_.checkpoint_every != 0) checkpoints_->save(steps_);
    tell(first);
    return checkpoints_ ? checkpoints_->finish() : 0;
  }

 private:
  WideAndDeep make_model() {
    if (options_.threads > 0) at::set_num_threads(options_.threads);
    torch::manual_seed(options_.seed);
    return WideAndDeep(tables_);
  }

  void add_checkpoints() {
    checkpoints_.emplace(
        job_, options_.checkpoint_dir,
        paceline::CheckpointOptions{.every = options_.checkpoint_every, .resume = options_.resume});
    checkpoints_->add("model", model_);
    checkpoints_->add("optimizer", optimizer_);
    checkpoints_->add("parallel", parallel_);
    for (paceline::server::SparseTable* const table : tables_.all())
      checkpoints_->add(table->spec().name, *table);
  }

  // Makes this rank's part of batch `step`, counted from 0, the next one.
  void take_batch(std::int64_t step) {
    const paceline::data::GlobalBatches::Part part = batches_.at(step);
    next_ = batch_of(data_.training, part.indices);
    next_lines_ = part.global_size;
  }

  void make_step(std::int64_t step, std::int64_t first) {
    const paceline::Stopwatch watch;
    const double rows_before = tables_.rows_pushed();
    const ClickBatch batch = std::move(next_);
    const std::int64_t lines = next_lines_;
    optimizer_.zero_grad();
    parallel_.weight(static_cast<double>(batch.size()));
    at::Tensor loss;
    if (batch.size() > 0)
      loss = at::binary_cross_entropy_with_logits(model_->forward(batch), batch.clicked);
    if (step < steps_) {
      take_batch(step);
      model_->prefetch(next_);  // its rows come while this step computes
    }
    if (loss.defined()) loss.backward();
    parallel_.step(optimizer_);
    model_->step(batch.size());
    const double told = loss.defined() ? loss.item<double>() : train_loss_;
    if (!std::isfinite(told)) throw_not_finite("the loss of step " + std::to_string(step));
    train_loss_ = step == first + 1 ? told : 0.98 * train_loss_ + 0.02 * told;
    if (step > first + kWarmUpSteps) {
      seconds_ += watch.seconds();
      timed_lines_ += static_cast<double>(lines);
      timed_rows_ += tables_.rows_pushed() - rows_before;
    }
    if (progress_) progress_->update(step, lines, told);
    job_.report(step, static_cast<double>(step * options_.batch) / job_.world_size(), told);
    write({{"event", "step"}, {"step", step}, {"loss", told}});
  }

  // Each rank scores its share of the held-out lines, when all updates are in the rows.
  void evaluate(std::int64_t step) {
    if (progress_) progress_->pause();
    tables_.quiesce();
    const torch::NoGradGuard no_grad;
    constexpr std::int64_t kLinesAtATime = 2'000;
    const std::int64_t all = std::ssize(data_.held_out);
    scores_ = at::zeros({all}, at::kDouble);
    const at::Tensor own = paceline::data::exact_share_of(all, job_.rank(), job_.world_size());
    for (const at::Tensor& some : own.split(kLinesAtATime)) {
      if (some.size(0) > 0)
        scores_.index_put_({some}, model_->forward(batch_of(data_.held_out, some)).to(at::kDouble));
    }
    job_.world().all_reduce(paceline::buffer_of(scores_)).wait();
    rank_held_out();
    write({{"event", "evaluation"}, {"step", step}, {"auc", auc_}, {"log_loss", log_loss_}});
  }

  void rank_held_out() {
    if (!at::isfinite(scores_).all().item<bool>()) throw_not_finite("the score of a held-out line");
    std::vector<examples::ScoredLine> scored;
    const auto* score = scores_.const_data_ptr<double>();
    for (const examples::ClickLine& line : data_.held_out)
      scored.push_back({*score++, line.clicked});
    log_loss_ = examples::log_loss(scored);
    auc_ = examples::area_under_curve(std::move(scored));
  }

  void write(const observe::Metrics& metrics) {
    if (metrics_) metrics_->write(metrics);
  }

  void tell(std::int64_t first) {
    const double lines = seconds_ > 0 ? timed_lines_ / seconds_ : 0;
    const double rows = job_.world().all_reduce(seconds_ > 0 ? timed_rows_ / seconds_ : 0);
    const std::int64_t training = std::ssize(data_.training), held_out = std::ssize(data_.held_out);
    write({{"event", "summary"},
           {"world_size", std::int64_t{job_.world_size()}},
           {"servers", std::int64_t{job_.servers()}},
           {"synchrony", options_.synchrony},
           {"model", std::string(tables_.deep ? "wide_and_deep" : "wide")},
           {"training_lines", training},
           {"held_out_lines", held_out},
           {"first_step", first},
           {"steps", steps_},
           {"train_loss", train_loss_},
           {"auc", auc_},
           {"log_loss", log_loss_},
           {"train_lines_per_second", lines},
           {"rows_pushed_per_second", rows},
           {"rows_stored", tables_.rows_stored()},
           {"parameters_sha256", paceline::whole_sha256(*model_)},
           {"scores_sha256", paceline::sha256_of({&scores_, 1})}});
    if (!tells_) return;
    std::printf(
        "trained on %lld lines for %lld steps: AUC %.4f, log loss %.4f on %lld held-out lines; "
        "%lld rows stored, %.0f lines/s, %.0f rows/s pulled and as many pushed\n",
        static_cast<long long>(training), static_cast<long long>(steps_), auc_, log_loss_,
        static_cast<long long>(held_out), static_cast<long long>(tables_.rows_stored()), lines,
        rows);
  }

  paceline::Job& job_;
  const RunOptions options_;
  const bool tells_;
  const ClickData data_;
  paceline::data::GlobalBatches batches_;
  const std::int64_t steps_;
  ClickTables tables_;
  WideAndDeep model_;
  paceline::DataParallel parallel_;
  torch::optim::Adam optimizer_;
  std::optional<paceline::Checkpoints> checkpoints_;
  std::optional<observe::MetricsFile> metrics_;  // rank 0's
  std::optional<observe::Progress> progress_;    // rank 0's
  ClickBatch next_;                              // this rank's part
  std::int64_t next_lines_ = 0;                  // of all ranks' parts
  at::Tensor scores_;                            // of the held-out lines: logits, [lines]
  double train_loss_ = 0;                        // of this rank's parts, smoothed
  double auc_ = 0, log_loss_ = 0;
  double seconds_ = 0, timed_lines_ = 0, timed_rows_ = 0;  // of the timed steps
};

}  // namespace

int train(paceline::Job& job, const RunOptions& options) {
  return Training(job, options).run();
}

}  // namespace click_through
