#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "layers.h"
#include "paceline/train.h"
#include "trainee.h"

namespace tiny_gpt {
namespace {

[[noreturn]] void refuse_stages(const std::string& why) {
  throw paceline::Error({paceline::Fault::misuse, why, {}});
}

class StagedModel final : public Trainee {
 public:
  StagedModel(const RunOptions& options, paceline::DeviceMesh& mesh)
      : options_(options),
        mesh_(mesh),
        stage_group_(mesh.group("pp")),
        pipeline_(layers_of(options.model, options.seed,
                            options.dtype == "float64" ? at::kDouble : at::kFloat, mesh, head_,
                            /*ties_head=*/is_flushed()),
                  mesh, pipeline_options()) {
    // A head may have been made for its times alone.
    if (!pipeline_.reads_target()) head_ = nullptr;
    require_samples();
    if (options.is_sequence_parallel && mesh.size("tp") > 1) require_whole_ends();
  }

  double step(const at::Tensor& rows, std::int64_t step, double rate) override {
    pipeline_.weight(static_cast<double>(rows.size(0)));
    const double loss = pipeline_.step(tokens_of(rows), targets_of(rows),
                                       [rate](torch::optim::Optimizer& optimizer) {
                                         for (auto& group : optimizer.param_groups())
                                           group.options().set_lr(rate);
                                       });
    if (!std::isfinite(loss) && !is_awaited(loss) && options_.non_finite.empty())
      throw_not_finite(step);
    const paceline::PipelineReport& report = pipeline_.last_step();
    steps_ += 1;
    idle_seconds_ += report.idle_seconds;
    compute_seconds_ += report.compute_seconds;
    live_activations_ = std::max<std::int64_t>(live_activations_, report.live_activations);
    versions_ = report.versions;
    return loss;
  }

  void train(bool on) override { pipeline_.train(on); }

  double loss_of(const at::Tensor& rows) override {
    const at::Tensor logits = pipeline_.forward(tokens_of(rows));
    // Replicas of the last stage have the logits too: the last rank alone tells the loss.
    const bool tells = head_ && stage_group_.rank() + 1 == stage_group_.size();
    const double own = tells ? head_->loss(logits, targets_of(rows)).item<double>() : 0;
    return stage_group_.size() == 1 ? own : stage_group_.all_reduce(own);
  }

  at::Tensor last_logits(const at::Tensor& tokens) override {
    at::Tensor logits = pipeline_.forward(own_tokens(tokens, mesh_)).select(1, -1);
    if (head_) logits = head_->gathered(logits).contiguous();
    if (stage_group_.size() > 1) {
      if (!head_) logits = at::empty({tokens.size(0), options_.model.vocabulary}, logits.options());
      stage_group_.broadcast(paceline::buffer_of(logits), stage_group_.size() - 1).wait();
    }
    return of_last_character(logits, mesh_);
  }

  std::string sha256() override { return pipeline_.parameters_sha256(); }

  void add_to(paceline::Checkpoints& checkpoints) override {
    checkpoints.add("pipeline", pipeline_);
  }

  paceline::observe::Metrics figures() override {
    paceline::Communicator& world = mesh_.world();
    std::vector<double> sums = {idle_seconds_, compute_seconds_,
                                static_cast<double>(pipeline_.traffic().bytes_sent)};
    world.all_reduce(paceline::buffer_of(sums)).wait();
    const auto of_all = [&world](std::int64_t own) {  // by rank
      const std::int64_t given[] = {own};
      std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
      world.all_gather(paceline::const_buffer_of(given), paceline::buffer_of(all)).wait();
      return all;
    };
    return {{"schedule", schedule()},
            {"stages", std::int64_t{pipeline_.stages()}},
            {"micro_batches", micro_batches()},
            {"first_layers", std::vector<std::int64_t>(pipeline_.first_layers().begin(),
                                                       pipeline_.first_layers().end())},
            {"recompute", pipeline_.recompute()},
            {"bubble", steps_ > 0 ? sums[0] / (sums[0] + sums[1]) : 0},
            {"cut_bytes_per_step", steps_ > 0 ? sums[2] / static_cast<double>(steps_) : 0},
            {"live_activations", of_all(live_activations_)},
            {"versions", of_all(versions_)}};
  }

 private:
  // Each batch ends within its step. Otherwise stages step at different times.
  bool is_flushed() const {
    return paceline::pipeline::parse_schedule(schedule()).value().entry.is_synchronous();
  }
  // Without a flush the first loss comes back some steps later.
  bool is_awaited(double loss) const {
    return std::isnan(loss) && !is_flushed() && steps_ < 2 * mesh_.world().size();
  }
  std::string schedule() const { return options_.pipeline.empty() ? "1f1b" : options_.pipeline; }
  std::int64_t micro_batches() const { return pipeline_.micro_batches(); }

  paceline::PipelineOptions pipeline_options() {
    paceline::PipelineOptions pipeline;
    pipeline.schedule = schedule();
    if (options_.micro_batches != 0) pipeline.micro_batches = options_.micro_batches;
    pipeline.partition = options_.partition;
    if (!options_.recompute.empty()) pipeline.recompute = options_.recompute;
    const std::int64_t own = std::max<std::int64_t>(options_.batch_size / mesh_.size("dp"), 1);
    const at::Tensor some = at::arange(own * options_.model.length)
                                .remainder(options_.model.vocabulary)
                                .view({own, options_.model.length});
    pipeline.sample = {{some}, some};
    // Called where the last stage is, which has the head.
    pipeline.loss = [this](const at::Tensor& logits, const at::Tensor& targets) {
      return head_->loss(logits, targets);
    };
    pipeline.optimizer = [this](std::vector<at::Tensor> parameters) {
      return std::make_unique<torch::optim::AdamW>(
          std::move(parameters), torch::optim::AdamWOptions(options_.learning_rate));
    };
    if (mesh_.size("tp") > 1)
      pipeline.tensor_plan = plan_of(options_.model, options_.is_sequence_parallel);
    pipeline.training.dropout_seed = options_.seed;
    // There is no norm of the whole model's gradient where stages step at different times.
    pipeline.training.max_grad_norm = is_flushed() ? options_.max_grad_norm : 0;
    pipeline.training.zero_stage = options_.zero_stage;
    pipeline.training.non_finite = options_.non_finite;
    return pipeline;
  }

  void require_samples() {
    const std::int64_t least = options_.batch_size / mesh_.size("dp");
    if (least >= micro_batches()) return;
    refuse_stages("--micro-batches " + std::to_string(micro_batches()) + " cannot cut the " +
                  std::to_string(least) + " sequences that a replica has in a step: raise " +
                  "--batch-size " + std::to_string(options_.batch_size) +
                  ", or take fewer micro-batches");
  }

  // A stage without norms would not know that sequences are split.
  void require_whole_ends() {
    const auto& first = pipeline_.first_layers();
    const int head = static_cast<int>(options_.model.layers) + 3;
    if (std::ranges::find(first, 1) == first.end() && std::ranges::find(first, head) == first.end())
      return;
    refuse_stages(
        "--sequence-parallel needs the layers embedding and positions on one stage, and "
        "norm and head on one: take fewer stages than " +
        std::to_string(pipeline_.stages()) + ", or cut elsewhere with --partition");
  }

  at::Tensor tokens_of(const at::Tensor& rows) {
    return own_tokens(rows.narrow(1, 0, rows.size(1) - 1), mesh_);
  }
  at::Tensor targets_of(const at::Tensor& rows) {
    return own_tokens(rows.narrow(1, 1, rows.size(1) - 1), mesh_);
  }

  const RunOptions& options_;
  paceline::DeviceMesh& mesh_;
  paceline::Communicator& stage_group_;
  Head head_{nullptr};  // where the last stage is
  paceline::Pipeline pipeline_;
  std::int64_t steps_ = 0, live_activations_ = 0, versions_ = 1;
  double idle_seconds_ = 0, compute_seconds_ = 0;
};

}  // namespace

std::unique_ptr<Trainee> make_staged_model(const RunOptions& options, paceline::DeviceMesh& mesh) {
  return std::make_unique<StagedModel>(options, mesh);
}

}  // namespace tiny_gpt
