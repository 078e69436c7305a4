#include "paceline/torch/parallel/layers_over_ranks.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"

namespace paceline::parallel {

LayersOverRanks::LayersOverRanks(torch::nn::Module& model, replica::Replicas& replicas,
                                 DeviceMesh* mesh, std::uint64_t dropout_seed)
    : replicas_(replicas) {
  place_in_batch(mesh != nullptr ? mesh->group("dp") : replicas.group());
  if (mesh != nullptr) {
    dropouts_->context = mesh->rank("cp");
    dropouts_->contexts = mesh->size("cp");
  }
  compute_over_ranks(sync_batch_norms_in(model));
  dropouts_->seed = dropout_seed;
  dropouts_->step = [this] { return replicas_.report().step; };
  std::uint32_t layer = 0;
  for (const auto& module : model.modules(/*include_self=*/false))
    if (auto* const dropout = module->as<DropoutImpl>()) dropout->follow(dropouts_, layer++);
}

LayersOverRanks::~LayersOverRanks() {
  ranks_->group = nullptr;
  ranks_->lane = {};
  ranks_->weight = 1;
  dropouts_->step = nullptr;
}

void LayersOverRanks::compute_over_ranks(const std::vector<NamedSyncBatchNorm>& norms) {
  for (const NamedSyncBatchNorm& norm : norms) ranks_->layers.push_back(norm.name);
  require_lockstep();
  if (!norms.empty()) give_norms_a_group();
  for (std::size_t k = 0; k < norms.size(); ++k)
    norms[k].layer->compute_over(ranks_, static_cast<int>(k));
}

// Layers that mix ranks get a group of their own: their collectives stand between those of the
// buckets in an order that may differ from rank to rank.
void LayersOverRanks::give_norms_a_group() {
  Communicator& group = replicas_.group();
  norms_ = group.size() > 1 ? group.split(0) : nullptr;
  ranks_->group = norms_.get();
  ranks_->lane = {replicas_.synchrony().watch(), replica::WaitWatch::Lane::layers};
}

void LayersOverRanks::rebind() {
  ranks_->group = nullptr;
  norms_.reset();
  ranks_->weight = 1;
  place_in_batch(replicas_.group());
  if (!ranks_->layers.empty()) give_norms_a_group();
}

void LayersOverRanks::require_lockstep() const {
  if (ranks_->layers.empty() || replicas_.synchrony().is_lockstep()) return;
  throw_misuse(
      "SyncBatchNorm computes over the batches of all ranks, which the synchrony lets train "
      "without waiting for each other: take another synchrony, or BatchNorm");
}

void LayersOverRanks::place_in_batch(const Communicator& replicas) {
  dropouts_->replica = replicas.rank();
  dropouts_->replicas = replicas.size();
}

}  // namespace paceline::parallel
