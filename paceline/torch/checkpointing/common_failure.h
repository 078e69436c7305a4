// A step that every rank takes for itself, and which counts only if it went well on all.
#pragma once

#include <optional>

#include "paceline/core/base/result.h"
#include "paceline/core/collective/group/communicator.h"

namespace paceline::checkpointing {

// Collective. THROWS Error, on all ranks, the failure of the lowest rank that has one.
void fail_together(Communicator& group, const std::optional<Failure>& own);

// Calls `step` on every rank, then fail_together() with what it threw.
template <typename Step>
void together(Communicator& group, const Step& step) {
  std::optional<Failure> failure;
  try {
    step();
  } catch (const Error& error) {
    failure = error.failure();
  }
  fail_together(group, failure);
}

}  // namespace paceline::checkpointing
