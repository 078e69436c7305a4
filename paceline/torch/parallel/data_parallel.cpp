#include "paceline/torch/parallel/data_parallel.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/norm/convert_sync_batch_norm.h"
#include "paceline/torch/replica/replicas.h"
#include "paceline/torch/strategy/strategy.h"

namespace paceline {

using parallel::ModelParts;
using parallel::Parameter;

// The replicas, and the layers that compute over their ranks.
class DataParallel::Impl {
 public:
  Impl(ModelParts parts, Communicator& group, Job* job, const DataParallelOptions& options)
      : replicas(std::move(parts), group, job, options, &strategy::make_synchrony) {}
  ~Impl() { ranks_->group = nullptr; }

  void compute_over_ranks(const std::vector<NamedSyncBatchNorm>& norms) {
    if (norms.empty()) return;
    layers_mix_ = true;
    require_lockstep();
    give_layers_a_group();
    for (const NamedSyncBatchNorm& norm : norms) {
      norm.layer->compute_over(ranks_, static_cast<int>(ranks_->layers.size()));
      ranks_->layers.push_back(norm.name);
    }
  }

  void rebind(Communicator& group, int root) {
    ranks_->group = nullptr;
    layers_.reset();
    replicas.rebind(group, root);
    ranks_->weight = 1;
    if (layers_mix_) give_layers_a_group();
  }

  void change_synchrony(const std::string& text) {
    replicas.change_synchrony(text);
    if (layers_mix_) require_lockstep();
  }

  void weigh(double weight) {
    replicas.weigh(weight);
    ranks_->weight = weight;
  }
  void restore_weight(const parallel::RankWeight& weight) {
    replicas.restore_weight(weight);
    ranks_->weight = weight.weight;
  }

  parallel::Replicas replicas;

 private:
  void require_lockstep() const {
    if (replicas.synchrony().is_lockstep()) return;
    throw_misuse(
        "SyncBatchNorm computes over the batches of all ranks, which the synchrony lets train "
        "without waiting for each other: take another synchrony, or BatchNorm");
  }

  // Layers that mix ranks get a group of their own: their collectives stand between those of the
  // buckets in an order that may differ from rank to rank.
  void give_layers_a_group() {
    Communicator& group = replicas.group();
    layers_ = group.size() > 1 ? group.split(0) : nullptr;
    ranks_->group = layers_.get();
  }

  bool layers_mix_ = false;
  std::unique_ptr<Communicator> layers_;
  std::shared_ptr<BatchRanks> ranks_ = std::make_shared<BatchRanks>();
};

DataParallel::DataParallel(torch::nn::Module& model, Job& job, const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(parallel::parts_of(model, options.sparse), job.world(), &job,
                                   options)) {
  impl_->compute_over_ranks(sync_batch_norms_in(model));
}

DataParallel::DataParallel(torch::nn::Module& model, Communicator& group,
                           const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(parallel::parts_of(model, options.sparse), group, nullptr,
                                   options)) {
  impl_->compute_over_ranks(sync_batch_norms_in(model));
}

DataParallel::DataParallel(const std::vector<Parameter>& parameters, Job& job,
                           const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(parallel::parts_of(parameters, options.sparse), job.world(),
                                   &job, options)) {}

DataParallel::DataParallel(const std::vector<Parameter>& parameters, Communicator& group,
                           const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(parallel::parts_of(parameters, options.sparse), group, nullptr,
                                   options)) {}

DataParallel::~DataParallel() = default;

void DataParallel::weight(double samples) {
  impl_->weigh(samples);
}

parallel::RankWeight DataParallel::said_weight() const {
  return impl_->replicas.weight();
}
void DataParallel::restore_weight(parallel::RankWeight weight) {
  impl_->restore_weight(weight);
}

bool DataParallel::synchronize() {
  return impl_->replicas.synchronize();
}

bool DataParallel::step(torch::optim::Optimizer& optimizer) {
  return impl_->replicas.step(optimizer);
}

bool DataParallel::step(Prepare prepare) {
  return impl_->replicas.step(std::move(prepare));
}

void DataParallel::require_own_gradients(const torch::optim::Optimizer& optimizer) const {
  impl_->replicas.require_own_gradients(optimizer);
}

void DataParallel::finish() {
  impl_->replicas.finish();
}

double DataParallel::clip_grad_norm(double max_norm) {
  return impl_->replicas.clip_grad_norm(max_norm);
}

std::vector<at::Tensor> DataParallel::parameters() const {
  return impl_->replicas.parameters();
}

std::vector<at::Tensor> DataParallel::parameters(const std::string& name) const {
  return impl_->replicas.parameters(name);
}

DataParallel::Gathered DataParallel::gathered() {
  return Gathered(impl_->replicas.gathered());
}

void DataParallel::rebind(Communicator& group, int root) {
  impl_->rebind(group, root);
}

at::Tensor DataParallel::mean(const at::Tensor& value) {
  return impl_->replicas.mean(value);
}

void DataParallel::loss(double loss) {
  impl_->replicas.loss(loss);
}

void DataParallel::synchrony(const std::string& text) {
  impl_->change_synchrony(text);
}

class DataParallel::Consensus::Held {
 public:
  explicit Held(parallel::Replicas& replicas) : consensus(replicas) {}
  parallel::Replicas::Consensus consensus;
};

DataParallel::Consensus::Consensus(parallel::Replicas& replicas)
    : held_(std::make_unique<Held>(replicas)) {}
DataParallel::Consensus::Consensus(Consensus&&) noexcept = default;
DataParallel::Consensus::~Consensus() = default;

DataParallel::Consensus DataParallel::consensus() {
  return Consensus(impl_->replicas);
}

DataParallel::NoSync DataParallel::no_sync() {
  impl_->replicas.pause();
  return NoSync(*this);
}

DataParallel::NoSync::~NoSync() {
  if (parallel_ != nullptr) parallel_->impl_->replicas.resume();
}

const std::vector<schedule::Bucket>& DataParallel::buckets() const {
  return impl_->replicas.synchrony().buckets();
}

parallel::Replicas& DataParallel::replicas() {
  return impl_->replicas;
}

const StepReport& DataParallel::last_step() const {
  return impl_->replicas.report();
}

}  // namespace paceline
