// What links and cores cost here, measured on the ranks of a job: the profile by which algorithms
// are chosen.
//
// It measures the programs themselves, so that what is priced is what the executor does. All that a
// call costs besides cancels in differences: on two ranks `binomial` passes one message more, one
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
  topology::Profile profile;  // what was not measured is as built in
  std::vector<topology::LinkClass> measured;
};

// Blocks; every rank of the job must call it, and all have the same result. `tell`: called on all
// ranks with what comes next. REQUIRES: two ranks.
Calibration calibrate(Job& job, const CompareOptions& options,
                      const std::function<void(const std::string&)>& tell = {});

}  // namespace paceline::measure
