#include "paceline/torch/strategy/make_synchrony.h"

#include "paceline/torch/gradient/schedule_options.h"
#include "paceline/torch/shard/shard.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"

namespace paceline::strategy {

replica::MadeSynchrony make_synchrony(const replica::ModelParts& parts, Communicator& group,
                                      Job* job, const DataParallelOptions& options) {
  (void)gradient::job_with_servers(group, job, options);  // refuses what does not go with it
  if (options.zero_stage != 0) return {shard::make_sharded_averaging(parts, group, job, options)};
  const StrategyChoice choice = parse_strategy(options.synchrony).value();
  if (choice.strategy.check != nullptr)
    choice.strategy.check(choice.settings, group.size()).value();
  return choice.strategy.make(choice.settings, {parts, group, job, options});
}

}  // namespace paceline::strategy
