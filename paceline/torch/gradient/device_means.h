// DeviceMeans: the means of gradients that lie on a device, where buckets travel from there as they
// are, or cast to 16 bits (cast_buckets.h): the group sums them between devices, by NCCL, or by
// staging them itself, whatever its ranks can. A bucket that is encoded otherwise, or whose mean
// servers form, goes through the host (staged_means.h).
//
// Ranks decide each for itself, because a group carries calls of ranks with unlike memory.
#pragma once

#include <memory>
#include <vector>

#include "paceline/torch/gradient/means.h"

namespace paceline::gradient {

// `staged`: the means of buckets that go through the host, over the same path. `path` and
// `parameters`, the dense ones first, outlive it. REQUIRES: the parameters lie on a device that
// Paceline sees (job::sees_device).
std::unique_ptr<Means> make_device_means(std::unique_ptr<Means> staged, ScheduledPath& path,
                                         const std::vector<replica::Parameter>& parameters);

}  // namespace paceline::gradient
