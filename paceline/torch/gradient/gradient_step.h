// GradientStep: the facts of the running step that all parts of gradient averaging share.
#pragma once

#include <c10/util/StringUtil.h>

#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/torch/gradient/passes.h"
#include "paceline/torch/gradient/step_agreement.h"
#include "paceline/torch/gradient/step_figures.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::gradient {

// The failure that ended the communication of a training: it is final, and all later calls throw
// it.
class FinalFailure {
 public:
  void set(std::exception_ptr failure) { failure_ = std::move(failure); }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  // Calls it. What it throws of the communication is the failure from then on.
  template <typename Call>
  decltype(auto) communicating(const Call& call) {
    try {
      return call();
    } catch (const Error&) {
      failure_ = std::current_exception();
      throw;
    }
  }

 private:
  std::exception_ptr failure_;
};

// Calls it; an Error that it throws tells in which part of a step it came.
template <typename When, typename Call>
auto telling(const When& when, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    Failure failure = error.failure();
    failure.what = c10::str(when(), ": ", failure.what);
    throw Error(std::move(failure));
  }
}

struct GradientStep {
  replica::RankWeight weight;  // of this rank's batch
  StepAgreement facts;
  Passes passes;
  StepFigures figures;
  FinalFailure failure;

  // Waits until all ranks have told their weights.
  StepWeights weights_of_all();
  // Tells for each parameter whether some rank of weight > 0 used it. Waits for all ranks.
  std::vector<bool> used_by_any();
  // They pass to StepAgreement.
  replica::WatchedLane::Call tell_reading(std::size_t unit);
  void wait_for_reading(const replica::WatchedLane::Call& told);
  // Whether some rank has weight 0. It waits for all weights. REQUIRES: this rank told its own.
  bool has_shadows();
};

}  // namespace paceline::gradient
