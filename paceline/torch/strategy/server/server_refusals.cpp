#include "paceline/torch/strategy/server/server_refusals.h"

#include <c10/util/StringUtil.h>

#include <string>

#include "paceline/core/base/base.h"
#include "paceline/core/job/server_words.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::strategy {

Job& job_that_serves(const server::ConsistencyChoice& choice, const StrategyContext& context) {
  const auto refuse = [&](const std::string& why, const std::string& remedy) {
    throw_misuse(c10::str("synchrony '", choice.entry.name, "' ", why, "; ", remedy));
  };
  Job* const job = context.job;
  const int ranks = context.group.size();
  if (job == nullptr || job->servers() == 0)
    refuse("keeps parameters on servers, and this job has none",
           "start it with `paceline run --servers N`, and make DataParallel with the job");
  if (ranks != job->world_size() || context.group.rank() != job->rank())
    refuse(c10::str("has all ", job->world_size(), " workers push to one table, and the group has ",
                    ranks, " ranks"),
           "train among all workers of the job, or take another synchrony");
  const auto fits = server::check_pacing(server::pacing_of(choice), ranks, job::replicas_of(*job));
  if (!fits) throw_misuse(c10::str("synchrony '", choice.text(), "': ", fits.error().what));
  if (!context.parts.sparse.empty())
    refuse(c10::str("does not go with the sparse gradients of '", context.parts.sparse.front().name,
                    "'"),
           "make the embedding with sparse(false)");
  if (const auto aliases =
          replica::aliases_in(context.parts.dense, replica::Aliases::common_elements))
    refuse(c10::str("keeps each parameter on servers by itself, and '", aliases->first, "' and '",
                    aliases->second, "' lie in one memory"),
           "register one tensor under both names where layers share it");
  for (const replica::Parameter& one : context.parts.dense) {
    if (one.tensor.scalar_type() == at::kFloat || one.tensor.scalar_type() == at::kDouble) continue;
    refuse(c10::str("does not go with parameter '", one.name, "' ", describe(one.tensor),
                    ": servers compute in float32 or float64"),
           "convert the model by model.to(torch::kFloat) before DataParallel is made");
  }
  return *job;
}

}  // namespace paceline::strategy
