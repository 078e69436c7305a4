#include "paceline/torch/replica/optimizer_mean.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/collective/collective.h"
#include "paceline/torch/replica/equal/coalesced.h"

namespace paceline::replica {

void require_known_optimizers(const Optimizers& optimizers, const std::string& what) {
  for (const torch::optim::Optimizer* optimizer : optimizers) {
    if (optimizers::with_known_state(*optimizer) != nullptr) continue;
    throw_misuse(c10::str(what,
                          " has to know what an optimizer keeps from step to step, as it "
                          "does of ",
                          optimizers::names_with_known_state(), ", and this is another one"));
  }
}

std::vector<ParameterSlots> slots_of(const Optimizers& optimizers, bool make) {
  std::vector<ParameterSlots> all;
  for (torch::optim::Optimizer* optimizer : optimizers) {
    const optimizers::KnownOptimizer& kind = *optimizers::with_known_state(*optimizer);
    for (auto& group : optimizer->param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        auto& states = optimizer->state();
        auto found = states.find(parameter.unsafeGetTensorImpl());
        if (found == states.end()) {
          if (!make) continue;
          found = states.emplace(parameter.unsafeGetTensorImpl(), kind.make_state()).first;
        }
        all.push_back({parameter, kind.slots(*found->second)});
      }
    }
  }
  return all;
}

// An optimizer takes a state that is there for one that it has made itself.
static void forget_empty_states(const Optimizers& optimizers) {
  for (torch::optim::Optimizer* optimizer : optimizers) {
    const optimizers::KnownOptimizer& kind = *optimizers::with_known_state(*optimizer);
    for (auto& group : optimizer->param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        const auto found = optimizer->state().find(parameter.unsafeGetTensorImpl());
        const auto is_there = [](const optimizers::OptimizerSlot& slot) {
          return slot.tensor->defined();
        };
        if (std::ranges::none_of(kind.slots(*found->second).tensors, is_there))
          optimizer->state().erase(found);
      }
    }
  }
}

// Sums of doubles have the same bits on all ranks, so the rounded means are equal.
static void average_counts(const std::vector<ParameterSlots>& all, Communicator& group,
                           double share) {
  std::vector<double> counts;
  for (const ParameterSlots& one : all)
    if (one.slots.step != nullptr) counts.push_back(share * static_cast<double>(*one.slots.step));
  if (counts.empty()) return;
  group.all_reduce(buffer_of(counts)).wait();
  std::size_t at = 0;
  for (const ParameterSlots& one : all) {
    if (one.slots.step == nullptr) continue;
    const double mean = counts[at++] / group.size();
    *one.slots.step = mean > 0 ? std::max<std::int64_t>(1, std::llround(mean)) : 0;
  }
}

void average_optimizers(const Optimizers& optimizers, Communicator& group, double share) {
  if (group.size() == 1) return;
  require_known_optimizers(optimizers, "averaging the states of optimizers");
  const at::NoGradGuard no_grad;
  const std::vector<ParameterSlots> all = slots_of(optimizers, true);
  std::vector<std::uint8_t> is_there;
  for (const ParameterSlots& one : all)
    for (const optimizers::OptimizerSlot& slot : one.slots.tensors)
      is_there.push_back(slot.tensor->defined());
  if (is_there.empty()) return;
  group.all_reduce(buffer_of(is_there), {.op = ReduceOp::max}).wait();
  std::vector<at::Tensor> tensors;
  std::size_t at = 0;
  for (const ParameterSlots& one : all) {
    for (const optimizers::OptimizerSlot& slot : one.slots.tensors) {
      if (is_there[at++] == 0) continue;
      if (!slot.tensor->defined()) *slot.tensor = at::zeros_like(one.parameter);
      tensors.push_back(*slot.tensor);
    }
  }
  average_counts(all, group, share);
  forget_empty_states(optimizers);
  CoalescedTensors(std::move(tensors), group).average(group, share, 0);
}

}  // namespace paceline::replica
