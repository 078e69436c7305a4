#include "paceline/core/transport/reactor/spin_rule.h"

namespace paceline::transport {

void SpinRule::found(Duration waited) {
  if (waited < kYieldAfter) return;
  if (!yields(waited)) {
    vain_ = 0;
    yields_ = false;
  }
  ++waits_;
}

void SpinRule::gave_up(Duration waited) {
  if (waited < kTrial) return;
  if (!yields_ && ++vain_ == kMostVain) {
    yields_ = true;
    waits_ = 0;
  }
  ++waits_;
}

}  // namespace paceline::transport
