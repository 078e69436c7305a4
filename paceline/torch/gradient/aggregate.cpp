#include "paceline/torch/gradient/aggregate.h"

#include <c10/util/StringUtil.h>

#include <string>

#include "paceline/core/base/base.h"
#include "paceline/core/schedule/path/push_pull.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::parallel {
namespace {

constexpr const char *kCollective = "collective", *kServer = "server";

[[noreturn]] void refuse(const std::string& why, const std::string& remedy) {
  throw_misuse(c10::str("DataParallelOptions::aggregate \"", kServer, "\" ", why, ": ", remedy));
}

void require_summable(const std::vector<Parameter>& dense) {
  for (const Parameter& one : dense) {
    const auto dtype = dtype_of(one.tensor.scalar_type());
    if (dtype && schedule::PushPull::can_carry(ReduceOp::average, *dtype)) continue;
    refuse(c10::str("does not go with parameter '", one.name, "' ", describe(one.tensor),
                    ", whose gradients servers do not sum"),
           "take float32, or \"collective\"");
  }
}

}  // namespace

Job* job_with_servers(const ModelParts& parts, const Communicator& group, Job* job,
                      const DataParallelOptions& options) {
  if (options.aggregate == kCollective) return nullptr;
  if (options.aggregate != kServer) {
    throw_misuse(c10::str("DataParallelOptions::aggregate is \"", options.aggregate,
                          "\"; there are \"", kCollective, "\" and \"", kServer, "\""));
  }
  const std::string otherwise = c10::str(", or take \"", kCollective, "\"");
  if (options.synchrony != "synchronous")
    refuse(c10::str("averages gradients, which synchrony \"", options.synchrony,
                    "\" does not send as they are"),
           "take \"synchronous\"" + otherwise);
  if (options.zero_stage != 0)
    refuse(c10::str("does not go with zero_stage ", options.zero_stage,
                    ", which reduces gradients to their owners"),
           "take zero_stage 0" + otherwise);
  if (options.compression != "none")
    refuse(c10::str("does not go with compression \"", options.compression,
                    "\", whose codes servers do not sum"),
           "take \"none\"" + otherwise);
  require_summable(parts.dense);
  if (job == nullptr || job->servers() == 0)
    refuse("needs servers, and this job has none",
           "start it by `paceline run --servers N`, make DataParallel with the job" + otherwise);
  if (group.size() != job->world_size() || group.rank() != job->rank())
    refuse(c10::str("sums what all ", job->world_size(), " workers push, and the group has ",
                    group.size(), " ranks"),
           "train among all workers of the job" + otherwise);
  return job;
}

}  // namespace paceline::parallel
