// A step as it ended on this rank, with what was wrong with it. A rank that complains ends the step
// with the others before it does.
#pragma once

#include <string>
#include <utility>

#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::replica {

struct EndedStep {
  StepOutcome outcome = {};
  std::string not_hooked = {}, unfrozen = {}, added = {};  // changed parameters; empty: none
  std::string unscaled = {};    // one whose gradient was made without the scale of fp16
  std::string not_finite = {};  // the text with which all ranks end; empty: they go on

  bool is_fine() const {
    return not_hooked.empty() && unfrozen.empty() && added.empty() && unscaled.empty() &&
           not_finite.empty() && outcome.complaint.empty();
  }
  // THROWS Error (misuse): it is not fine. `precision`: DataParallelOptions::precision.
  void refuse(const std::string& precision) const;
};

// A step that ends in a mismatch mostly means a loop that is shorter on one rank.
template <typename Call>
auto with_remedy(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    if (error.fault() != Fault::mismatch) throw;
    Failure failure = error.failure();
    failure.what +=
        ". This rank was in a step: if ranks have different numbers of batches, walk the loader by "
        "parallel.join(loader), which keeps them together";
    throw Error(std::move(failure));
  }
}

// A frozen parameter that has a gradient now; empty: there is none.
std::string unfrozen_parameter(const ModelParts& parts);
// A parameter with a gradient that came to the model later; empty: there is none.
std::string added_parameter(const ModelParts& parts);

}  // namespace paceline::replica
