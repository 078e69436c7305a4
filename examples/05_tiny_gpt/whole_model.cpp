#include <torch/torch.h>

#include <cmath>

#include "model.h"
#include "paceline/train.h"
#include "trainee.h"

namespace tiny_gpt {
namespace {

Model make_model(const RunOptions& options, paceline::DeviceMesh& mesh, at::Device device) {
  torch::manual_seed(options.seed);
  Model model(options.model);
  if (options.dtype == "float64") model->to(at::kDouble);
  model->share_sequences(mesh.group("cp"));
  paceline::parallelize(*model, mesh, plan_of(options.model, options.is_sequence_parallel));
  if (!device.is_cpu()) model->to(device);
  return model;
}

class WholeModel final : public Trainee {
 public:
  WholeModel(const RunOptions& options, paceline::DeviceMesh& mesh, at::Device device)
      : options_(options),
        mesh_(mesh),
        device_(device),
        model_(make_model(options, mesh, device)),
        parallel_(*model_, mesh,
                  {.dropout_seed = options.seed,
                   .non_finite = options.non_finite,
                   .zero_stage = options.zero_stage}),
        optimizer_(parallel_.parameters(), torch::optim::AdamWOptions(options.learning_rate)) {}

  double step(const at::Tensor& rows, std::int64_t step, double rate) override {
    for (auto& group : optimizer_.param_groups()) group.options().set_lr(rate);
    optimizer_.zero_grad();
    parallel_.weight(static_cast<double>(rows.size(0)));
    at::Tensor of_rows;
    if (rows.size(0) > 0) {
      of_rows = loss_tensor(rows);
      of_rows.backward();
    }
    if (of_rows.defined() && options_.non_finite.empty() && !std::isfinite(of_rows.item<double>()))
      throw_not_finite(step);
    parallel_.synchronize();
    parallel_.clip_grad_norm(options_.max_grad_norm);
    optimizer_.step();
    return parallel_.mean(of_rows).item<double>();
  }

  void train(bool on) override { model_->train(on); }
  double loss_of(const at::Tensor& rows) override { return loss_tensor(rows).item<double>(); }

  at::Tensor last_logits(const at::Tensor& tokens) override {
    const at::Tensor own = own_tokens(tokens, mesh_).to(device_);
    return of_last_character(model_->last_logits(own), mesh_).cpu();
  }

  std::string sha256() override {
    const auto whole = parallel_.gathered();
    return paceline::whole_sha256(*model_);
  }

  void add_to(paceline::Checkpoints& checkpoints) override {
    checkpoints.add("model", model_);
    checkpoints.add("optimizer", optimizer_);
    checkpoints.add("parallel", parallel_);
  }

  paceline::observe::Metrics figures() override {
    return {{"skipped_steps", parallel_.last_step().skipped}};
  }

 private:
  at::Tensor loss_tensor(const at::Tensor& rows) {
    const std::int64_t length = rows.size(1) - 1;
    return model_->loss(own_tokens(rows.narrow(1, 0, length), mesh_).to(device_),
                        own_tokens(rows.narrow(1, 1, length), mesh_).to(device_));
  }

  const RunOptions& options_;
  paceline::DeviceMesh& mesh_;
  const at::Device device_;
  Model model_;
  paceline::DataParallel parallel_;
  torch::optim::AdamW optimizer_;
};

}  // namespace

std::unique_ptr<Trainee> make_whole_model(const RunOptions& options, paceline::DeviceMesh& mesh,
                                          at::Device device) {
  return std::make_unique<WholeModel>(options, mesh, device);
}

}  // namespace tiny_gpt
