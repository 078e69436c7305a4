#include "paceline/torch/gradient/make_means.h"

#include <utility>

#include "paceline/core/job/use_devices.h"
#include "paceline/torch/gradient/device_means.h"
#include "paceline/torch/gradient/staged_means.h"

namespace paceline::gradient {

std::unique_ptr<Means> make_means(bool travels, ScheduledPath& path, Job* job,
                                  const std::vector<replica::Parameter>& parameters) {
  if (!travels) return make_own_means();
  auto means = make_whole_means(path, parameters);
  const at::Device device = parameters.front().tensor.device();
  if (device.is_cpu()) return means;
  means = make_staged_means(std::move(means), job, parameters);
  if (job != nullptr) job::name_device(*job, device.str());
  if (job == nullptr || !job::sees_device(*job, device.index())) return means;
  return make_device_means(std::move(means), path, parameters);
}

}  // namespace paceline::gradient
