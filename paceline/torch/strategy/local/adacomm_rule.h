// The period of AdaComm (Wang and Joshi, MLSys 2019, section 4): it falls with the square root of
// the loss.
#pragma once

namespace paceline::strategy {

struct AdaCommRule {
  int start = 16;                        // the first period
  double first_loss = -1;                // from which the rule counts; below 0: not known yet
  double first_rate = 1, last_rate = 1;  // learning rates

  void begin(double loss, double rate);
  // The period after an interval with this mean loss: ceil(sqrt(r0/r * F/F0) * start), and half of
  // `period` where that would not be less, unless the learning rate has changed.
  int next(int period, double loss, double rate);
};

}  // namespace paceline::strategy
