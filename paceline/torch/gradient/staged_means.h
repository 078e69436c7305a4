// StagedMeans: the means of gradients that lie on a device. A full bucket is copied to the host;
// when it has arrived it travels as any other, by each schedule and codec; its mean is copied back.
//
// Nobody waits for a copy before the backward pass has ended: each bucket that leaves looks whether
// those before it have arrived, and the end of the pass looks until all have. So buckets travel
// while the device still computes later ones.
#pragma once

#include <memory>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/torch/gradient/means.h"

namespace paceline::gradient {

// `host`: the means of what has arrived. Without `job` copies take a detour. `parameters`, the
// dense ones first, and the job outlive it. REQUIRES: the parameters lie on a device.
std::unique_ptr<Means> make_staged_means(std::unique_ptr<Means> host, Job* job,
                                         const std::vector<replica::Parameter>& parameters);

}  // namespace paceline::gradient
