// JobExtension: what a room above job keeps with a job as long as the job lives.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "paceline/core/job/job.h"

namespace paceline::job {

// It ends before the job says goodbye to its peers, so its machines still have their links.
class JobExtension {
 public:
  virtual ~JobExtension() = default;
};

// The extension by this name, which `make` makes at the first call. THREAD: any, but one job's
// calls come one at a time while `make` runs; not the driver.
std::shared_ptr<JobExtension> job_extension(
    Job& job, std::string_view name, const std::function<std::shared_ptr<JobExtension>()>& make);

}  // namespace paceline::job
