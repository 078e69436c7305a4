#include "paceline/torch/parallel/data_parallel.h"

#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/core/base/own_lines.h"
#include "paceline/torch/norm/convert_sync_batch_norm.h"
#include "paceline/torch/parallel/model_file.h"
#include "paceline/torch/parallel/option_ranges.h"
#include "paceline/torch/precision/precision.h"
#include "paceline/torch/replica/replicas.h"
#include "paceline/torch/strategy/strategy.h"
#include "paceline/torch/tensor/tensor.h"

namespace paceline {

using parallel::ModelParts;
using parallel::Parameter;

namespace {

// Only what has been proven beside split layers may stand beside them.
void require_synchronous(const DataParallelOptions& options) {
  const auto refuse = [](const std::string& what) {
    throw_misuse(
        "DataParallel: the model's layers are split among ranks, which goes with synchrony "
        "\"synchronous\" and compression \"none\" alone, and " +
        what + " was asked for");
  };
  if (options.synchrony != "synchronous") refuse("synchrony \"" + options.synchrony + "\"");
  if (options.compression != "none") refuse("compression \"" + options.compression + "\"");
}

// Ranks that share sequences are one replica, whose parameters must be the same in each step.
void require_no_servers_beside(DeviceMesh& mesh, const std::string& synchrony) {
  auto choice = strategy::parse_strategy(synchrony);
  if (mesh.size("cp") == 1 || !choice || !choice->strategy.on_servers) return;
  throw_misuse(
      "DataParallel: the mesh has an axis cp, whose ranks share sequences, and synchrony '" +
      synchrony +
      "' keeps the parameters of each rank apart: take a mesh of dp alone, or "
      "\"synchronous\"");
}

// Ranks along tp decide together whether an overflow skips a step.
void require_mesh_for_scale(const DataParallelOptions& options) {
  if (!precision::parse_precision(options.precision).value().has_scaler()) return;
  throw_misuse(
      c10::str("DataParallel: the model's layers are split among ranks, which decide "
               "together on the scale of precision \"",
               options.precision, "\": hand it the mesh, as in DataParallel(model, mesh)"));
}

void require_split_layers(DeviceMesh& mesh) {
  if (mesh.size("tp") == 1) return;
  throw_misuse(c10::str("DataParallel: the mesh has an axis tp of ", mesh.size("tp"),
                        " ranks, and no layer of the model is split among them, so that they would "
                        "train apart: call parallelize(model, mesh, plan) before, or take a mesh "
                        "without tp"));
}

// `mesh`: null: none was given, so each rank of the group is a replica.
ModelParts split_parts_of(const torch::nn::Module& model, DeviceMesh* mesh,
                          const DataParallelOptions& options) {
  if (mesh != nullptr) require_no_servers_beside(*mesh, options.synchrony);
  ModelParts parts = parallel::parts_of(model, options.sparse);
  parts.placements = tensor::placements_of(model);
  const bool is_split = parts.placements.group() != nullptr;
  if (mesh != nullptr && is_split) require_synchronous(options);
  if (mesh != nullptr && !is_split) require_split_layers(*mesh);
  if (mesh == nullptr && is_split) require_mesh_for_scale(options);
  return parts;
}

// The choice is refused before anything changes.
precision::Choice checked_choice(const DataParallelOptions& options, bool has_model) {
  parallel::require_in_range(options);
  const precision::Choice choice = precision::parse_precision(options.precision).value();
  precision::require_fitting(choice, options, has_model);
  return choice;
}

// The parts of a model that is trained, and its tensors that have 16 bits as long as it is.
struct TrainedParts {
  ModelParts parts;
  precision::HalvedTensors halved = {};
};

TrainedParts trained_parts_of(torch::nn::Module& model, ModelParts parts,
                              const DataParallelOptions& options) {
  const precision::Choice choice = checked_choice(options, true);
  if (choice.mode == precision::Mode::o1) precision::require_float32(parts);
  if (choice.mode != precision::Mode::o2) return {std::move(parts)};
  auto halved = precision::halve(model, parts, choice.type, [](const torch::nn::Module& module) {
    return module.as<LayerNormImpl>() != nullptr;
  });
  return {std::move(parts), std::move(halved)};
}

// Told once for each host.
void warn_of_a_slow_processor(const precision::Choice& choice, const Communicator& ranks) {
  const std::vector<int> hosts = ranks.topology().host_of_ranks();
  const int first = static_cast<int>(
      std::ranges::find(hosts, hosts[static_cast<std::size_t>(ranks.rank())]) - hosts.begin());
  if (first != ranks.rank()) return;
  const std::string slowness =
      precision::slowness_of(choice, precision::processor_multiplies(choice.type));
  if (!slowness.empty()) warn(slowness);
}

}  // namespace

// The replicas, and the layers that compute over their ranks.
class DataParallel::Impl {
 public:
  Impl(TrainedParts trained, Communicator& group, Job* job, const DataParallelOptions& options,
       bool has_model, DeviceMesh* mesh = nullptr)
      : choice(checked_choice(options, has_model)),
        halved(std::move(trained.halved)),
        replicas(std::move(trained.parts), group, job, options, &strategy::make_synchrony,
                 precision::make_numbers(choice, mesh)),
        mesh_(mesh) {
    warn_of_a_slow_processor(choice, job != nullptr ? job->world() : group);
  }
  ~Impl() {
    ranks_->group = nullptr;
    ranks_->lane = {};
    ranks_->weight = 1;
    dropouts_->step = nullptr;
  }

  void save(const std::string& file) {
    if (trained_model == nullptr) {
      throw_misuse(
          "DataParallel::save() writes a model, and this was made of parameters alone: take "
          "state(), whose tensors have their names, and save those");
    }
    const parallel::WholeState state(replicas);
    std::string failure;
    if (state.is_first_rank()) {
      try {
        parallel::write_model_file(*trained_model, state, file);
      } catch (const std::exception& error) {
        failure = error.what();
      }
    }
    failure = state.told_by_first_rank(std::move(failure));
    if (failure.empty()) return;
    throw Error({Fault::io, c10::str("DataParallel::save(\"", file, "\"): ", failure), {}});
  }

  torch::OrderedDict<std::string, at::Tensor> state() {
    const parallel::WholeState whole(replicas);
    const at::NoGradGuard no_grad;
    torch::OrderedDict<std::string, at::Tensor> named;
    for (const parallel::WholeTensor& one : whole.tensors())
      named.insert(one.name, one.value.clone());
    return named;
  }

  // The layers of the model follow this training from here on.
  void take_layers(torch::nn::Module& model, std::uint64_t seed) {
    compute_over_ranks(sync_batch_norms_in(model));
    drive_dropouts(model, seed);
    halved.begin();
  }

  // The masks of the model's Dropout layers follow the steps of this training.
  void drive_dropouts(const torch::nn::Module& model, std::uint64_t seed) {
    dropouts_->seed = seed;
    dropouts_->step = [this] { return replicas.report().step; };
    place_in_batch(replicas.group());
    std::uint32_t layer = 0;
    for (const auto& module : model.modules(/*include_self=*/false))
      if (auto* const dropout = module->as<DropoutImpl>()) dropout->follow(dropouts_, layer++);
  }

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
    replicas.rebind(group, root);  // which may refuse: then nothing has changed
    ranks_->group = nullptr;
    layers_.reset();
    ranks_->weight = 1;
    place_in_batch(group);
    if (layers_mix_) give_layers_a_group();
  }

  void change_synchrony(const std::string& text) {
    DataParallelOptions options = replicas.options();
    options.synchrony = text;
    precision::require_fitting_synchrony(choice, options);
    if (mesh_ != nullptr) require_no_servers_beside(*mesh_, text);
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

  // Says which rows of the global batch this rank has, and which parts of their sequences.
  void place_in_batch(const Communicator& replicas_group) {
    dropouts_->replica = replicas_group.rank();
    dropouts_->replicas = replicas_group.size();
  }
  void place_in_batch(DeviceMesh& mesh) {
    place_in_batch(mesh.group("dp"));
    dropouts_->context = mesh.rank("cp");
    dropouts_->contexts = mesh.size("cp");
  }

  const precision::Choice choice;
  precision::HalvedTensors halved;  // ends after the replicas, which look after gradients
  parallel::Replicas replicas;
  torch::nn::Module* trained_model = nullptr;

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
    ranks_->lane = {replicas.synchrony().watch(), parallel::WaitWatch::Lane::layers};
  }

  DeviceMesh* const mesh_;  // null: the ranks are replicas
  std::shared_ptr<tensor::DropoutClock> dropouts_ = std::make_shared<tensor::DropoutClock>();
  bool layers_mix_ = false;
  std::unique_ptr<Communicator> layers_;
  std::shared_ptr<BatchRanks> ranks_ = std::make_shared<BatchRanks>();
};

DataParallel::DataParallel(torch::nn::Module& model, Job& job, const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(
          trained_parts_of(model, split_parts_of(model, nullptr, options), options), job.world(),
          &job, options, true)) {
  impl_->trained_model = &model;
  impl_->take_layers(model, options.dropout_seed);
}

DataParallel::DataParallel(torch::nn::Module& model, Communicator& group,
                           const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(
          trained_parts_of(model, split_parts_of(model, nullptr, options), options), group, nullptr,
          options, true)) {
  impl_->trained_model = &model;
  impl_->take_layers(model, options.dropout_seed);
}

DataParallel::DataParallel(torch::nn::Module& model, DeviceMesh& mesh,
                           const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(
          trained_parts_of(model, split_parts_of(model, &mesh, options), options),
          mesh.group("dp,cp"), &mesh.job(), options, true, &mesh)) {
  impl_->trained_model = &model;
  impl_->take_layers(model, options.dropout_seed);
  impl_->place_in_batch(mesh);
}

DataParallel::DataParallel(const std::vector<Parameter>& parameters, Job& job,
                           const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(TrainedParts{parallel::parts_of(parameters, options.sparse)},
                                   job.world(), &job, options, false)) {}

DataParallel::DataParallel(const std::vector<Parameter>& parameters, Communicator& group,
                           const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(TrainedParts{parallel::parts_of(parameters, options.sparse)},
                                   group, nullptr, options, false)) {}

DataParallel::~DataParallel() = default;

void DataParallel::weight(double samples) {
  impl_->weigh(samples);
}

std::weak_ptr<const void> DataParallel::life() const {
  return impl_->replicas.life();
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

void DataParallel::backward(const at::Tensor& loss) {
  impl_->replicas.backward(loss);
}

Autocast DataParallel::autocast() const {
  const precision::Choice& choice = impl_->choice;
  return Autocast(choice.mode == precision::Mode::o1 ? std::optional(choice.type) : std::nullopt);
}

at::ScalarType DataParallel::input_type() const {
  if (impl_->choice.mode == precision::Mode::o2) return impl_->choice.type;
  return impl_->replicas.parts().trained().front().tensor.scalar_type();
}

std::vector<at::Tensor> DataParallel::parameters(const std::string& name) const {
  return impl_->replicas.parameters(name);
}

void DataParallel::save(const std::string& file) {
  impl_->save(file);
}

torch::OrderedDict<std::string, at::Tensor> DataParallel::state() {
  return impl_->state();
}

torch::nn::Module* DataParallel::model() const {
  return impl_->trained_model;
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
  if (parallel_ != nullptr && !life_.expired()) parallel_->impl_->replicas.resume();
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
