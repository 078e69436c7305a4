#include "paceline/torch/parallel/data_parallel.h"

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/torch/parallel/layers_over_ranks.h"
#include "paceline/torch/parallel/model_file.h"
#include "paceline/torch/parallel/trained_parts.h"
#include "paceline/torch/replica/consensus.h"
#include "paceline/torch/replica/replicas.h"
#include "paceline/torch/strategy/strategy.h"

namespace paceline {

using replica::Parameter;

DataParallel::DataParallel(parallel::TrainedParts trained, Communicator& group, Job* job,
                           const DataParallelOptions& options, torch::nn::Module* model,
                           DeviceMesh* mesh)
    : model_(model),
      mesh_(mesh),
      precision_(std::make_unique<precision::PrecisionChoice>(trained.choice)),
      halved_(std::make_unique<precision::HalvedTensors>(std::move(trained.halved))),
      replicas_(std::make_unique<replica::Replicas>(
          std::move(trained.parts), group, job, options, &strategy::make_synchrony,
          precision::make_mixed_precision(trained.choice, mesh))) {
  if (replicas_->parts().device().is_cpu())
    parallel::warn_of_a_slow_processor(*precision_, job != nullptr ? job->world() : group);
  if (model == nullptr) return;
  layers_ =
      std::make_unique<parallel::LayersOverRanks>(*model, *replicas_, mesh, options.dropout_seed);
  halved_->begin();
}

DataParallel::DataParallel(torch::nn::Module& model, Job& job, const DataParallelOptions& options)
    : DataParallel(parallel::trained_parts_of(model, nullptr, options), job.world(), &job, options,
                   &model) {}

DataParallel::DataParallel(torch::nn::Module& model, Communicator& group,
                           const DataParallelOptions& options)
    : DataParallel(parallel::trained_parts_of(model, nullptr, options), group, nullptr, options,
                   &model) {}

DataParallel::DataParallel(torch::nn::Module& model, DeviceMesh& mesh,
                           const DataParallelOptions& options)
    : DataParallel(parallel::trained_parts_of(model, &mesh, options), mesh.group("dp,cp"),
                   &mesh.job(), options, &model, &mesh) {}

DataParallel::DataParallel(const std::vector<Parameter>& parameters, Job& job,
                           const DataParallelOptions& options)
    : DataParallel(parallel::trained_parts_of(parameters, options), job.world(), &job, options) {}

DataParallel::DataParallel(const std::vector<Parameter>& parameters, Communicator& group,
                           const DataParallelOptions& options)
    : DataParallel(parallel::trained_parts_of(parameters, options), group, nullptr, options) {}

DataParallel::~DataParallel() = default;

void DataParallel::weight(double samples) {
  replicas_->weigh(samples);
  if (layers_) layers_->weigh(samples);
}

std::weak_ptr<const void> DataParallel::life() const {
  return replicas_->life();
}

replica::RankWeight DataParallel::said_weight() const {
  return replicas_->weight();
}
void DataParallel::restore_weight(replica::RankWeight weight) {
  replicas_->restore_weight(weight);
  if (layers_) layers_->weigh(weight.weight);
}

bool DataParallel::synchronize() {
  return replicas_->synchronize();
}

bool DataParallel::step(torch::optim::Optimizer& optimizer) {
  return replicas_->step(optimizer);
}

bool DataParallel::step(Prepare prepare) {
  return replicas_->step(std::move(prepare));
}

void DataParallel::require_own_gradients(const torch::optim::Optimizer& optimizer) const {
  replicas_->require_own_gradients(optimizer);
}

void DataParallel::finish() {
  replicas_->finish();
}

double DataParallel::clip_grad_norm(double max_norm) {
  return replicas_->clip_grad_norm(max_norm);
}

std::vector<at::Tensor> DataParallel::parameters() const {
  return replicas_->parameters();
}

void DataParallel::backward(const at::Tensor& loss) {
  replicas_->backward(loss);
}

Autocast DataParallel::autocast() const {
  return Autocast(
      precision_->mode == precision::Mode::o1 ? std::optional(precision_->type) : std::nullopt,
      replicas_->parts().device().type());
}

at::ScalarType DataParallel::input_type() const {
  if (precision_->mode == precision::Mode::o2) return precision_->type;
  return replicas_->parts().trained().front().tensor.scalar_type();
}

std::vector<at::Tensor> DataParallel::parameters(const std::string& name) const {
  return replicas_->parameters(name);
}

void DataParallel::save(const std::string& file) {
  if (model_ == nullptr) {
    throw_misuse(
        "DataParallel::save() writes a model, and this was made of parameters alone: take "
        "state(), whose tensors have their names, and save those");
  }
  const parallel::WholeState state(*replicas_);
  std::string failure;
  if (state.is_first_rank()) {
    try {
      parallel::write_model_file(*model_, state, file);
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }
  failure = state.told_by_first_rank(std::move(failure));
  if (failure.empty()) return;
  throw Error({Fault::io, c10::str("DataParallel::save(\"", file, "\"): ", failure), {}});
}

torch::OrderedDict<std::string, at::Tensor> DataParallel::state() {
  const parallel::WholeState whole(*replicas_);
  const at::NoGradGuard no_grad;
  torch::OrderedDict<std::string, at::Tensor> named;
  for (const parallel::WholeTensor& one : whole.tensors())
    named.insert(one.name, one.value.clone());
  return named;
}

torch::nn::Module* DataParallel::model() const {
  return model_;
}

DataParallel::Gathered DataParallel::gathered() {
  return Gathered(replicas_->gathered());
}

void DataParallel::rebind(Communicator& group, int root) {
  replicas_->rebind(group, root);  // which may refuse: then nothing has changed
  if (layers_) layers_->rebind();
}

at::Tensor DataParallel::mean(const at::Tensor& value) {
  return replicas_->mean(value);
}

void DataParallel::loss(double loss) {
  replicas_->loss(loss);
}

void DataParallel::synchrony(const std::string& text) {
  DataParallelOptions options = replicas_->options();
  options.synchrony = text;
  precision::require_fitting_synchrony(*precision_, options);
  if (mesh_ != nullptr) parallel::require_no_servers_beside(*mesh_, text);
  replicas_->change_synchrony(text);
  if (layers_) layers_->require_lockstep();
}

DataParallel::Consensus::Consensus(replica::Replicas& replicas)
    : held_(std::make_unique<replica::Consensus>(replicas)) {}
DataParallel::Consensus::Consensus(Consensus&&) noexcept = default;
DataParallel::Consensus::~Consensus() = default;

DataParallel::Consensus DataParallel::consensus() {
  return Consensus(*replicas_);
}

DataParallel::NoSync DataParallel::no_sync() {
  replicas_->pause();
  return NoSync(*this);
}

DataParallel::NoSync::~NoSync() {
  if (parallel_ != nullptr && !life_.expired()) parallel_->replicas_->resume();
}

const std::vector<schedule::Bucket>& DataParallel::buckets() const {
  return replicas_->synchrony().buckets();
}

replica::Replicas& DataParallel::replicas() {
  return *replicas_;
}

const StepReport& DataParallel::last_step() const {
  return replicas_->report();
}

}  // namespace paceline
