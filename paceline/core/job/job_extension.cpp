#include "paceline/core/job/job_extension.h"

#include "paceline/core/job/job_impl.h"

namespace paceline::job {

std::shared_ptr<JobExtension> job_extension(
    Job& job, std::string_view name, const std::function<std::shared_ptr<JobExtension>()>& make) {
  Job::Impl& impl = job.impl();
  const std::lock_guard lock(impl.world_mutex);
  if (const auto found = impl.companions.find(name); found != impl.companions.end())
    return found->second;
  return impl.companions.emplace(name, make()).first->second;
}

}  // namespace paceline::job
