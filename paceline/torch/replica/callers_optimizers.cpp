#include "paceline/torch/replica/callers_optimizers.h"

#include <torch/torch.h>

#include <utility>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/torch/replica/agreement.h"
#include "paceline/torch/replica/optimizer_mean.h"

namespace paceline::replica {

void CallersOptimizers::end_step_with(Optimizers optimizers, Synchrony& synchrony) {
  present_ = std::move(optimizers);
  synchrony.steps_by(present_);
}

// A fingerprint differs also where a rank of sharded parameters has leaves of some rates alone.
// Ranks may have no leaf in common there: they compare groups of equal places too.
void CallersOptimizers::require_equal_rates(Synchrony& synchrony, const Leaves& leaves,
                                            Communicator& calls) const {
  std::vector<Parameter> named = leaves.named();
  if (synchrony.pieces() != nullptr && present_.size() == 1) {
    const auto& groups = present_.front()->param_groups();
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (!groups[g].params().empty())
        named.push_back({c10::str("group ", g, " of ", groups.size()), groups[g].params()[0]});
  }
  try {
    require_same_rates(calls, named, present_);
  } catch (const Error&) {
    synchrony.fail(std::current_exception());
    throw;
  }
}

std::string CallersOptimizers::complaint_of_second(const torch::optim::Optimizer& optimizer,
                                                   const std::string& seer) const {
  if (last_ == nullptr || last_ == &optimizer) return {};
  const std::string what =
      "step(optimizer) was called with another optimizer than the last time and without a "
      "backward() between them, though the first call ended the step: ";
  if (!seer.empty()) {
    return c10::str(what, "synchrony \"", seer,
                    "\" trains one model by one optimizer. Make one of groups of parameters, each "
                    "with options of its own (torch::optim::OptimizerParamGroup)");
  }
  return what +
         "to step several optimizers by the gradients of one backward(), call synchronize(), then "
         "step() of each optimizer itself";
}

void CallersOptimizers::go_on(bool may_have_differed) {
  may_differ_ = may_differ_ || may_have_differed;
  if (may_have_differed) equalised_.clear();
}

// Messages of gradients may be under way on the training's own group.
void CallersOptimizers::equalise(const Optimizers& optimizers, Communicator& calls) {
  if (!may_differ_) return;
  Optimizers left;
  for (torch::optim::Optimizer* const one : optimizers)
    if (equalised_.insert(one).second) left.push_back(one);
  if (!left.empty()) average_optimizers(left, calls);
}

}  // namespace paceline::replica
