#include "paceline/torch/strategy/make_synchrony.h"

#include <c10/util/StringUtil.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/gradient/schedule_options.h"
#include "paceline/torch/shard/shard.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"

namespace paceline::strategy {
namespace {

void refuse_on_device(const replica::ModelParts& parts, const DataParallelOptions& options) {
  const at::Device device = parts.device();
  if (device.is_cpu()) return;
  if (options.zero_stage != 0) {
    throw_misuse(c10::str("DataParallelOptions::zero_stage is ", options.zero_stage,
                          ", which divides what lies in host memory, and the model lies on ",
                          device,
                          ": train with zero_stage 0, or move the model with "
                          "model.to(torch::kCPU)"));
  }
  if (parts.placements.group() != nullptr) {
    throw_misuse(
        c10::str("DataParallel: the model has layers that ranks share (parallelize), which "
                 "is for host memory at present, and it lies on ",
                 device,
                 ": make every rank a replica, or move the model with "
                 "model.to(torch::kCPU)"));
  }
}

}  // namespace

replica::MadeSynchrony make_synchrony(const replica::ModelParts& parts, Communicator& group,
                                      Job* job, const DataParallelOptions& options) {
  refuse_on_device(parts, options);
  (void)gradient::job_with_servers(group, job, options);  // refuses what does not go with it
  if (options.zero_stage != 0) return {shard::make_sharded_averaging(parts, group, job, options)};
  const StrategyChoice choice = parse_strategy(options.synchrony).value();
  if (choice.strategy.check != nullptr)
    choice.strategy.check(choice.settings, group.size()).value();
  return choice.strategy.make(choice.settings, {parts, group, job, options});
}

}  // namespace paceline::strategy
