// The form of Means for a model: by where its parameters lie, and whether anything travels.
#pragma once

#include <memory>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/torch/gradient/means.h"
#include "paceline/torch/gradient/scheduled_path.h"

namespace paceline::gradient {

// `travels`: the gradients go by `path`. `job`: of the group; null: unknown, and buffers on devices
// are staged. `path` and `parameters`, the dense ones first, outlive it.
std::unique_ptr<Means> make_means(bool travels, ScheduledPath& path, Job* job,
                                  const std::vector<replica::Parameter>& parameters);

}  // namespace paceline::gradient
