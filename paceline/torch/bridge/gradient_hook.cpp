#include "paceline/torch/bridge/gradient_hook.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "paceline/core/base/result.h"
#include "paceline/torch/bridge/gradient_placement.h"
#include "paceline/torch/bridge/tensors.h"

namespace paceline {
namespace {

using torch::autograd::variable_list;

// `grad` is a detached view of `gradient`, the tensor that arrived, which autograd keeps for the
// post-hooks; `gradient` itself may be a view of an operator's result.
bool is_held_elsewhere(const at::Tensor& gradient, const at::Tensor& grad) {
  if (grad.layout() != at::kStrided || !grad.is_alias_of(gradient)) return grad.use_count() > 1;
  const bool view = gradient.is_view();
  return grad.use_count() > 1 || gradient.use_count() > 1 ||
         (view && gradient._base().use_count() > 1) ||
         grad.storage().use_count() > (view ? 3U : 2U);
}

class Before final : public torch::autograd::FunctionPreHook {
 public:
  explicit Before(std::shared_ptr<const GradientEvents> events) : events_(std::move(events)) {}
  variable_list operator()(const variable_list& gradients) override {
    if (gradients.empty() || !gradients[0].defined()) return gradients;
    if (!events_->arriving()) return variable_list(gradients.size());
    const double factor = events_->factor ? events_->factor() : 1;
    if (factor == 1) return gradients;
    return {gradients[0] * factor};
  }

 private:
  std::shared_ptr<const GradientEvents> events_;
};

class After final : public torch::autograd::FunctionPostHook {
 public:
  After(std::shared_ptr<const GradientEvents> events, at::Tensor leaf, GradientPlacement* birth)
      : events_(std::move(events)), leaf_(std::move(leaf)), birth_(birth) {}
  variable_list operator()(const variable_list& outputs, const variable_list& gradients) override {
    if (gradients.empty() || !gradients[0].defined()) return outputs;
    const at::Tensor& grad = leaf_.grad();
    if (birth_ != nullptr && grad.layout() == at::kStrided) birth_->became(grad.const_data_ptr());
    events_->accumulated(is_held_elsewhere(gradients[0], grad));
    return outputs;
  }

 private:
  std::shared_ptr<const GradientEvents> events_;
  at::Tensor leaf_;
  GradientPlacement* birth_;  // a hook of the same node; null: there is none
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
  std::unique_ptr<GradientPlacement> birth;
  if (events_->birthplace) birth = std::make_unique<GradientPlacement>(leaf, events_->birthplace);
  birth_ = birth.get();
  after_ = accumulator_->add_post_hook(std::make_unique<After>(events_, leaf, birth.get()));
  if (birth) accumulator_->add_pre_hook(std::move(birth));
}

GradientHook::~GradientHook() {
  if (!accumulator_) return;  // moved from
  auto& before = accumulator_->pre_hooks();
  before.erase(std::remove_if(
                   before.begin(), before.end(),
                   [&](const auto& hook) { return hook.get() == before_ || hook.get() == birth_; }),
               before.end());
  accumulator_->del_post_hook(after_);
}

bool GradientHook::is_in_force(const at::Tensor& leaf) const {
  return torch::autograd::impl::try_get_grad_accumulator(leaf) == accumulator_;
}

int current_backward() {
  return torch::autograd::get_current_graph_task_id();
}

bool is_nested_backward() {
  using torch::autograd::GraphTask;
  const auto* member = torch::autograd::get_current_graph_task_exec_info();
  if (member == nullptr) return false;
    // libtorch hands out no task, only members of the present one.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  constexpr std::size_t kOffset = offsetof(GraphTask, exec_info_);
#pragma GCC diagnostic pop
  const auto* task =
      reinterpret_cast<const GraphTask*>(reinterpret_cast<const std::byte*>(member) - kOffset);
  return task->reentrant_depth_ > 0;
}

bool backward_builds_graph() {
  return at::GradMode::is_enabled();
}

}  // namespace paceline
