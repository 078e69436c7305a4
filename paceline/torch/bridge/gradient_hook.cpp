#include "paceline/torch/bridge/gradient_hook.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/result.h"
#include "paceline/torch/bridge/tensors.h"

namespace paceline {
namespace {

using torch::autograd::variable_list;

class Before final : public torch::autograd::FunctionPreHook {
 public:
  explicit Before(std::shared_ptr<const GradientEvents> events) : events_(std::move(events)) {}
  variable_list operator()(const variable_list& gradients) override {
    if (!gradients.empty() && gradients[0].defined() && !events_->arriving())
      return variable_list(gradients.size());
    return gradients;
  }

 private:
  std::shared_ptr<const GradientEvents> events_;
};

class After final : public torch::autograd::FunctionPostHook {
 public:
  explicit After(std::shared_ptr<const GradientEvents> events) : events_(std::move(events)) {}
  variable_list operator()(const variable_list& outputs, const variable_list& gradients) override {
    if (!gradients.empty() && gradients[0].defined()) events_->accumulated();
    return outputs;
  }

 private:
  std::shared_ptr<const GradientEvents> events_;
};

}  // namespace

GradientHook::GradientHook(const at::Tensor& leaf, GradientEvents events) {
  if (!leaf.defined() || !leaf.is_leaf() || !leaf.requires_grad()) {
    throw_misuse(
        c10::str("gradients of ", describe(leaf),
                 " cannot be watched: it must be a leaf of the graph that requires a gradient"));
  }
  accumulator_ = torch::autograd::impl::grad_accumulator(leaf);
  events_ = std::make_shared<const GradientEvents>(std::move(events));
  auto before = std::make_unique<Before>(events_);
  before_ = before.get();
  accumulator_->add_pre_hook(std::move(before));
  after_ = accumulator_->add_post_hook(std::make_unique<After>(events_));
}

GradientHook::~GradientHook() {
  if (!accumulator_) return;  // moved from
  auto& before = accumulator_->pre_hooks();
  before.erase(std::remove_if(before.begin(), before.end(),
                              [&](const auto& hook) { return hook.get() == before_; }),
               before.end());
  accumulator_->del_post_hook(after_);
}

int current_backward() {
  return torch::autograd::get_current_graph_task_id();
}

bool backward_builds_graph() {
  return at::GradMode::is_enabled();
}

}  // namespace paceline
