#include "paceline/torch/strategy/sandblaster.h"

#include <torch/torch.h>

#include <cstring>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/core/server/server.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/optimizers/curvature_pairs.h"
#include "paceline/torch/optimizers/optimizers.h"

namespace paceline {
namespace {

std::vector<torch::optim::OptimizerParamGroup> trained_parameters(torch::nn::Module& model) {
  std::vector<at::Tensor> trained;
  for (const at::Tensor& parameter : model.parameters())
    if (parameter.requires_grad()) trained.push_back(parameter);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::move(trained));
  return groups;
}

server::LbfgsSettings settings_of(const SandblasterOptions& options, const at::Tensor& vector) {
  return {.name = options.name,
          .elements = static_cast<std::size_t>(vector.numel()),
          .dtype = buffer_of(vector).dtype,
          .samples = options.samples,
          .portion = options.portion,
          .history = static_cast<int>(options.history),
          .first_step = options.lr,
          .max_evaluations = static_cast<int>(options.max_eval),
          .tolerance = options.tolerance_grad};
}

}  // namespace

class Sandblaster::Impl {
 public:
  Impl(torch::nn::Module& model, Job& job, const SandblasterOptions& options)
      : parameters_(trained_parameters(model)),
        vector_(parameters_.values()),
        lbfgs_(job, settings_of(options, vector_), buffer_of(vector_)) {}

  double step(const LossSum& loss_sum) {
    double loss = 0;
    try {
      loss =
          lbfgs_.iterate([&](const server::PortionWork& work) { return compute(work, loss_sum); })
              .loss;
    } catch (const Error& error) {
      if (error.fault() == Fault::misuse) assign(lbfgs_.parameters());
      throw;
    }
    assign(lbfgs_.parameters());
    return loss;
  }

  std::int64_t portions() const { return lbfgs_.portions(); }

 private:
  void assign(const ConstBuffer& values) {
    std::memcpy(buffer_of(vector_).data, values.data, values.size_bytes());
    parameters_.assign(vector_);
    clear_gradients();
  }

  void clear_gradients() const {
    for (const at::Tensor& one : parameters_.tensors()) one.mutable_grad().reset();
  }

  double compute(const server::PortionWork& work, const LossSum& loss_sum) {
    if (work.has_new_parameters) assign(work.parameters);
    clear_gradients();
    const at::AutoGradMode with_gradients(true);
    const at::Tensor loss = loss_sum({work.number, work.begin, work.end});
    if (!loss.defined() || loss.numel() != 1)
      throw_misuse(c10::str("Sandblaster: the loss of portion ", work.number,
                            " is no tensor of one element: return the sum over its samples"));
    loss.backward();
    const at::Tensor gradient = parameters_.gradient();
    std::memcpy(work.gradient.data, buffer_of(gradient).data, work.gradient.size_bytes());
    return loss.item<double>();
  }

  const optimizers::FlatParameters parameters_;
  const at::Tensor vector_;  // the parameters, one after the other
  server::LbfgsOnServers lbfgs_;
};

Sandblaster::Sandblaster(torch::nn::Module& model, Job& job, const SandblasterOptions& options)
    : impl_(std::make_unique<Impl>(model, job, options)) {}

Sandblaster::~Sandblaster() = default;

double Sandblaster::step(const LossSum& loss_sum) {
  return impl_->step(loss_sum);
}

std::int64_t Sandblaster::portions() const {
  return impl_->portions();
}

}  // namespace paceline
