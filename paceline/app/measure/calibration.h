// Measures on the ranks of a job what links and cores cost: the profile by which algorithms are
// chosen.
//
// It measures the programs themselves, so that prices hold for the work of the executor. All other
// costs of a call cancel in differences: on two ranks `binomial` passes one message more, one
// after the other, than `recursive_doubling`; and slopes over the length tell a byte's price apart
// from everything else, as it is when both ranks send and receive.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "paceline/app/measure/comparison.h"
#include "paceline/core/job/job.h"
#include "paceline/core/topology/profile.h"

namespace paceline::measure {

struct Calibration {
  topology::Profile profile;  // prices that were not measured are the built-in ones
  std::vector<topology::LinkClass> measured;
};

// Blocks; every rank of the job must call it, and all get the same result. `tell` is called on all
// ranks with the name of the next measurement. REQUIRES: two ranks.
Calibration calibrate(Job& job, const CompareOptions& options,
                      const std::function<void(const std::string&)>& tell = {});

}  // namespace paceline::measure
