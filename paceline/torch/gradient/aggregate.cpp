#include "paceline/torch/gradient/aggregate.h"

#include <c10/util/StringUtil.h>

#include <optional>
#include <string>

#include "paceline/core/base/base.h"

namespace paceline::parallel {
namespace {

constexpr const char *kCollective = "collective", *kServer = "server", *kAutomatic = "automatic";

// Why servers do not average these gradients, and the remedy.
struct Hindrance {
  std::string why, remedy;
};

std::optional<Hindrance> hindrance(const Communicator& group, const Job* job,
                                   const DataParallelOptions& options) {
  if (options.synchrony != "synchronous")
    return Hindrance{c10::str("averages gradients, which synchrony \"", options.synchrony,
                              "\" does not send as they are"),
                     "take \"synchronous\""};
  if (options.zero_stage != 0)
    return Hindrance{c10::str("does not go with zero_stage ", options.zero_stage,
                              ", which reduces gradients to their owners"),
                     "take zero_stage 0"};
  if (job == nullptr || job->servers() == 0)
    return Hindrance{"needs servers, and this job has none",
                     "start it by `paceline run --servers N`, make DataParallel with the job"};
  if (group.size() != job->world_size() || group.rank() != job->rank())
    return Hindrance{c10::str("sums what all ", job->world_size(),
                              " workers push, and the group has ", group.size(), " ranks"),
                     "train among all workers of the job"};
  return std::nullopt;
}

}  // namespace

Job* job_with_servers(const Communicator& group, Job* job, const DataParallelOptions& options) {
  if (options.aggregate == kCollective) return nullptr;
  if (options.aggregate != kServer && options.aggregate != kAutomatic) {
    throw_misuse(c10::str("DataParallelOptions::aggregate is \"", options.aggregate,
                          "\"; there are \"", kCollective, "\", \"", kServer, "\" and \"",
                          kAutomatic, "\""));
  }
  const auto found = hindrance(group, job, options);
  if (found && options.aggregate == kServer)
    throw_misuse(c10::str("DataParallelOptions::aggregate \"", kServer, "\" ", found->why, ": ",
                          found->remedy, ", or take \"", kCollective, "\""));
  return found ? nullptr : job;
}

bool aggregates_by_forecast(const DataParallelOptions& options) {
  return options.aggregate == kAutomatic;
}

}  // namespace paceline::parallel
