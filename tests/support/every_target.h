// The instruction sets of this processor that vectorised code chooses from at run time.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>

namespace paceline::test {

// Makes the call once for each instruction set, as if the processor had no better one.
template <typename Function>
void for_each_target(Function call) {
  for (std::int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    SCOPED_TRACE(hwy::TargetName(targets & -targets));
    hwy::SetSupportedTargetsForTest(targets & -targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    call();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

}  // namespace paceline::test
