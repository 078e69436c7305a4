#include "replica.h"

#include <string>

#include "models.h"
#include "paceline/core/base/base.h"

Replica::Replica(paceline::Job& job, const Options& options)
    : number(job.rank()), replicas(job.world_size()) {
  if (options.layout.empty()) return;
  mesh.emplace(job, options.layout);
  number = mesh->rank("dp");
  replicas = mesh->size("dp");
}

[[noreturn]] static void refuse(const Options& options, const std::string& why) {
  throw paceline::Error({paceline::Fault::misuse,
                         "--layout " + options.layout + " lets workers share layers: " + why,
                         {}});
}

void require_shared_layers(const Options& options) {
  if (plan_of(options.model).empty())
    refuse(options, "--model " + options.model +
                        " has none that can be shared; mlp, wide and "
                        "deep have");
  if (options.optimizer != "sgd" && options.optimizer != "adamw")
    refuse(options, "--optimizer " + options.optimizer +
                        " looks at whole layers, of which each has a part: take sgd or adamw");
}

std::unique_ptr<paceline::DataParallel> make_parallel(paceline::Job& job, const Options& options,
                                                      const paceline::DataParallelOptions& parallel,
                                                      Replica& replica,
                                                      torch::nn::Sequential& model) {
  if (!replica.mesh) return std::make_unique<paceline::DataParallel>(model, job, parallel);
  if (replica.workers(job) > 1) require_shared_layers(options);
  paceline::parallelize(*model, *replica.mesh, plan_of(options.model));
  return std::make_unique<paceline::DataParallel>(model, *replica.mesh, parallel);
}
