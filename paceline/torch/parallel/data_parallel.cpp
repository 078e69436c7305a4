#include "paceline/torch/parallel/data_parallel.h"

#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "paceline/core/base/stopwatch.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/gradient/own_updates.h"
#include "paceline/torch/gradient/reducer.h"
#include "paceline/torch/norm/convert_sync_batch_norm.h"
#include "paceline/torch/replica/agreement.h"
#include "paceline/torch/replica/clip_grad_norm.h"
#include "paceline/torch/replica/coalesced.h"
#include "paceline/torch/replica/model_parts.h"
#include "paceline/torch/replica/replica_check.h"

namespace paceline {
namespace {

using parallel::ModelParts;
using parallel::Parameter;

std::vector<at::Tensor> tensors_of(const std::vector<Parameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

std::vector<Parameter> trained(const ModelParts& parts) {
  std::vector<Parameter> all = parts.dense;
  all.insert(all.end(), parts.sparse.begin(), parts.sparse.end());
  return all;
}

std::vector<Parameter> trained_and_frozen(const ModelParts& parts) {
  std::vector<Parameter> all = trained(parts);
  all.insert(all.end(), parts.frozen.begin(), parts.frozen.end());
  return all;
}

std::string name_of(BufferMode mode) {
  switch (mode) {
    case BufferMode::off: return "off";
    case BufferMode::broadcast: return "broadcast";
    case BufferMode::average: return "average";
  }
  return "unknown";
}

// Those that must be the same on all ranks.
std::vector<parallel::Setting> compared_options(const DataParallelOptions& options) {
  return {{"first_bucket_bytes", c10::str(options.first_bucket_bytes)},
          {"bucket_bytes", c10::str(options.bucket_bytes)},
          {"buffers", name_of(options.buffers)},
          {"static_order", options.static_order ? "true" : "false"},
          {"backward_passes_per_step", c10::str(options.backward_passes_per_step)},
          {"check_replicas_every", c10::str(options.check_replicas_every)},
          {"schedule", options.schedule},
          {"compression", options.compression},
          {"optimizer", options.optimizer ? "given" : "not given"}};
}

// What ends a step in a mismatch is mostly a loop that is shorter on one rank.
template <typename Call>
auto with_remedy(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    if (error.fault() != Fault::mismatch) throw;
    Failure failure = error.failure();
    failure.what +=
        ". This rank was in a step: if ranks have different numbers of batches, walk the loader by "
        "parallel.join(loader), which keeps them together";
    throw Error(std::move(failure));
  }
}

// Makes all replicas equal to the root's, after a check that they can be.
void equalise(const ModelParts& parts, Communicator& group, Job* job, int root,
              const DataParallelOptions& options) {
  if (group.size() == 1) return;
  parallel::require_agreement(group, parts.description());
  parallel::require_same_settings(group, compared_options(options));
  parallel::CoalescedTensors(parts.all(), job).broadcast(group, root);
}

}  // namespace

class DataParallel::Impl {
 public:
  Impl(ModelParts parts, Communicator& group, Job* job, const DataParallelOptions& options)
      : parts_(std::move(parts)), job_(job), options_(options) {
    bind(group, 0);
  }
  ~Impl() {
    ranks_->group = nullptr;
    if (updates_ == nullptr || reducer_ == nullptr) return;
    try {
      reducer_->receive_all();
    } catch (const std::exception&) {  // what ended the communication was told, or will be
    }
  }

  void bind(Communicator& group, int root) {
    ranks_->group = nullptr;
    layers_.reset();
    checks_.reset();
    equalise(parts_, group, job_, root, options_);
    group_ = &group;
    const bool with_buffers = group.size() > 1 && options_.buffers != BufferMode::off;
    buffers_ = std::make_unique<parallel::CoalescedTensors>(
        with_buffers ? tensors_of(parts_.buffers) : std::vector<at::Tensor>(), job_);
    reducer_ =
        std::make_unique<parallel::Reducer>(parts_.dense, parts_.sparse, group, job_, options_);
    if (options_.optimizer && updates_ == nullptr)
      updates_ = std::make_unique<parallel::OwnUpdates>(options_.optimizer);
    if (updates_) updates_->be_for(trained(parts_));
    ranks_->weight = 1;
    if (group.size() > 1 && options_.check_replicas_every > 0) checks_ = group.split(0);
    if (layers_mix_) give_layers_a_group();
  }

  void rebind(Communicator& group, int root) {
    if (root < 0 || root >= group.size()) {
      throw_misuse(
          c10::str("DataParallel::rebind: rank ", root, " is not in a group of ", group.size()));
    }
    synchronized_.reset();
    first_use_.reset();
    reducer_.reset();  // lets go of the hooks and of the gradients in its memory
    const std::vector<Parameter> named = trained_and_frozen(parts_);
    std::vector<std::string> sparse;
    for (const Parameter& parameter : parts_.sparse) sparse.push_back(parameter.name);
    ModelParts now = parallel::parts_of(named, sparse);
    now.buffers = std::move(parts_.buffers);
    parts_ = std::move(now);
    bind(group, root);
  }

  void compute_over_ranks(const std::vector<NamedSyncBatchNorm>& norms) {
    if (norms.empty()) return;
    layers_mix_ = true;
    give_layers_a_group();
    for (const NamedSyncBatchNorm& norm : norms) {
      norm.layer->compute_over(ranks_, static_cast<int>(ranks_->layers.size()));
      ranks_->layers.push_back(norm.name);
    }
  }

  void set_weight(double weight) {
    synchronized_.reset();
    reducer().set_weight(weight);
    ranks_->weight = weight;
  }
  // For destructors: after a rebind() that failed there is nothing to restore.
  void restore_weight(parallel::RankWeight weight) {
    if (!reducer_) return;
    synchronized_.reset();
    reducer().restore(weight);
    ranks_->weight = weight.weight;
  }

  void resume() {
    if (reducer_) reducer_->resume();
  }

  bool synchronize() {
    const std::string unfrozen = unfrozen_parameter();
    synchronized_.reset();
    check_replicas();
    const auto outcome = with_remedy([this] { return reducer().finish(); });
    const bool any_batch = take_buffers(outcome);
    if (!unfrozen.empty()) refuse_unfrozen(unfrozen);
    synchronized_ = outcome;
    return any_batch;
  }

  bool step(torch::optim::Optimizer& optimizer) {
    const std::string stranger = stranger_of(optimizer);
    if (!synchronize()) return false;
    if (!stranger.empty()) refuse_stranger(stranger);
    if (reducer().report().overflowed) return true;
    const Stopwatch watch;
    optimizer.step();
    reducer().tell_update(watch.seconds());
    return true;
  }

  bool step(DataParallel::Prepare prepare) {
    if (updates_ == nullptr) {
      throw_misuse(
          "DataParallel::step() without an optimizer needs DataParallelOptions::optimizer, which "
          "makes one for each parameter: set it, or call step(optimizer)");
    }
    finish();  // before the next one's `prepare`
    updates_->prepare(std::move(prepare));
    const auto before = std::exchange(synchronized_, std::nullopt);
    if (before && !reducer().has_gradients()) {
      if (before->total_weight > 0 && !before->overflowed)
        reducer().tell_update(updates_->update_all());
      return before->total_weight > 0;
    }
    const std::string unfrozen = unfrozen_parameter();
    check_replicas();
    const auto outcome = with_remedy([this] {
      return reducer().finish_early(
          [this](const schedule::Bucket& bucket) { updates_->update(bucket.gradients); });
    });
    if (outcome.total_weight > 0 && !outcome.overflowed) {
      if (outcome.is_under_way) update_at_first_use();
      else reducer().tell_update(updates_->update_all());
    }
    const bool any_batch = take_buffers(outcome);
    if (!unfrozen.empty()) refuse_unfrozen(unfrozen);
    return any_batch;
  }

  // The parameter, if any, that has a gradient and which `optimizer` would step although its
  // gradient is not averaged.
  std::string stranger_of(const torch::optim::Optimizer& optimizer) const {
    std::set<const c10::TensorImpl*> owned;
    for (const Parameter& parameter : trained(parts_))
      owned.insert(parameter.tensor.unsafeGetTensorImpl());
    const auto& groups = optimizer.param_groups();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t i = 0; i < groups[g].params().size(); ++i) {
        const at::Tensor& tensor = groups[g].params()[i];
        if (!tensor.grad().defined() || owned.contains(tensor.unsafeGetTensorImpl())) continue;
        for (const Parameter& frozen : parts_.frozen)
          if (frozen.tensor.is_same(tensor)) return c10::str("'", frozen.name, "'");
        return c10::str("parameter ", i, " of the optimizer's group ", g);
      }
    }
    return {};
  }

  [[noreturn]] static void refuse_stranger(const std::string& stranger) {
    throw_misuse(c10::str(
        stranger,
        " has a gradient of this rank alone, with which the optimizer would let the replicas drift "
        "apart: it was frozen when DataParallel was made, or came to the optimizer later. Unfreeze "
        "before DataParallel is made, or call rebind(group) afterwards; give a parameter that is "
        "not the model's an optimizer of its own; drop a gradient that is left over"));
  }

  void finish() {
    reducer().receive_all();
    first_use_.reset();
  }

  void save(torch::serialize::OutputArchive& archive) {
    finish();
    parallel::write(archive, reducer().state());
    archive.write("has_optimizers", c10::IValue(updates_ != nullptr));
    if (updates_ == nullptr) return;
    torch::serialize::OutputArchive optimizers(archive.compilation_unit());
    updates_->save(optimizers);
    archive.write("optimizers", optimizers);
  }

  void load(torch::serialize::InputArchive& archive) {
    finish();
    auto state = parallel::read_training_state(archive);
    c10::IValue has_optimizers;
    archive.read("has_optimizers", has_optimizers);
    if (has_optimizers.toBool() != (updates_ != nullptr)) {
      throw_misuse(
          c10::str("DataParallel::load(): the archive was saved ", updates_ ? "without" : "with",
                   " DataParallelOptions::optimizer, and this has ", updates_ ? "them" : "none",
                   ": set the options that it was saved with"));
    }
    reducer().restore(std::move(state));
    if (updates_ == nullptr) return;
    torch::serialize::InputArchive optimizers;
    archive.read("optimizers", optimizers);
    updates_->load(optimizers);
  }

  double clip(double max_norm) {
    if (reducer().in_step()) {
      throw_misuse(
          "DataParallel::clip_grad_norm() was called between backward() and synchronize(), where "
          "the "
          "gradients are not those of the global batch yet: call synchronize() first");
    }
    if (reducer().is_under_way()) {
      throw_misuse(
          "DataParallel::clip_grad_norm(): gradients of the last step are under way, each to be "
          "applied when its parameter is used: a schedule that crosses the barrier has no norm of "
          "all of them. Clip with step(optimizer), or leave DataParallelOptions::optimizer out");
    }
    return paceline::clip_grad_norm(tensors_of(trained(parts_)), max_norm);
  }

  parallel::Reducer& reducer() {
    if (!reducer_)
      throw_misuse(
          "DataParallel: rebind() failed, so it has no group: call rebind() again, with one that "
          "works");
    return *reducer_;
  }

 private:
  std::string unfrozen_parameter() const {
    for (const Parameter& frozen : parts_.frozen)
      if (frozen.tensor.requires_grad() && frozen.tensor.grad().defined()) return frozen.name;
    return {};
  }

  [[noreturn]] static void refuse_unfrozen(const std::string& name) {
    throw_misuse(c10::str("parameter '", name,
                          "' was frozen when DataParallel was made and has a gradient now, of this "
                          "rank alone: unfreeze parameters before DataParallel is made, or call "
                          "rebind(group) afterwards"));
  }

  bool take_buffers(const parallel::Reducer::Outcome& outcome) {
    if (outcome.total_weight == 0) return false;
    if (options_.buffers == BufferMode::broadcast) buffers_->broadcast(*group_, outcome.root);
    if (options_.buffers == BufferMode::average)
      buffers_->average(*group_, reducer().weight().weight, outcome.root);
    return true;
  }

  void update_at_first_use() {
    first_use_ = std::make_unique<FirstUse>(tensors_of(parts_.dense), [this](std::size_t i) {
      try {
        reducer().receive(i);
      } catch (const std::exception&) {  // libtorch would only log it: the next call throws it
        reducer().fail(std::current_exception());
      }
    });
    updates_->update_from(parts_.dense.size());
  }

  // Layers that mix ranks get a group of their own: their collectives stand between those of the
  // buckets in an order that may differ from rank to rank.
  void give_layers_a_group() {
    layers_ = group_->size() > 1 ? group_->split(0) : nullptr;
    ranks_->group = layers_.get();
  }

  // Looks at the parameters as the last optimizer step left them; nobody writes to them now. What
  // makes replicas differ from the beginning shows after the first step already.
  void check_replicas() {
    const std::int64_t step = reducer().report().step + 1;
    if (checks_ == nullptr || (step != 2 && step % options_.check_replicas_every != 0)) return;
    reducer().receive_all();
    std::vector<std::string> names;
    const auto all = trained_and_frozen(parts_);
    for (const Parameter& parameter : all) names.push_back(parameter.name);
    try {
      parallel::require_equal_replicas(*checks_, tensors_of(all), names, step);
    } catch (const Error&) {
      reducer().fail(std::current_exception());
      throw;
    }
  }

  ModelParts parts_;
  Job* job_;
  DataParallelOptions options_;
  Communicator* group_ = nullptr;
  std::unique_ptr<parallel::CoalescedTensors> buffers_;
  std::unique_ptr<parallel::OwnUpdates> updates_;  // none: the caller has an optimizer
  std::unique_ptr<parallel::Reducer> reducer_;
  std::unique_ptr<FirstUse> first_use_;  // while updates are under way
  // What synchronize() ended with, until the next step.
  std::optional<parallel::Reducer::Outcome> synchronized_;
  bool layers_mix_ = false;
  std::unique_ptr<Communicator> layers_;
  // The check stands between messages of gradients in an order that may differ from rank to rank.
  std::unique_ptr<Communicator> checks_;  // none: nothing to compare
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
  impl_->set_weight(samples);
}

parallel::RankWeight DataParallel::said_weight() const {
  return impl_->reducer().weight();
}
void DataParallel::restore_weight(parallel::RankWeight weight) {
  impl_->restore_weight(weight);
}

bool DataParallel::synchronize() {
  return impl_->synchronize();
}

bool DataParallel::step(torch::optim::Optimizer& optimizer) {
  return impl_->step(optimizer);
}

bool DataParallel::step(Prepare prepare) {
  return impl_->step(std::move(prepare));
}

void DataParallel::require_own_gradients(const torch::optim::Optimizer& optimizer) const {
  if (const std::string stranger = impl_->stranger_of(optimizer); !stranger.empty())
    Impl::refuse_stranger(stranger);
}

void DataParallel::finish() {
  impl_->finish();
}

double DataParallel::clip_grad_norm(double max_norm) {
  return impl_->clip(max_norm);
}

void DataParallel::rebind(Communicator& group, int root) {
  impl_->rebind(group, root);
}

void DataParallel::save(torch::serialize::OutputArchive& archive) const {
  impl_->save(archive);
}
void DataParallel::load(torch::serialize::InputArchive& archive) {
  impl_->load(archive);
}

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const DataParallel& parallel) {
  parallel.save(archive);
  return archive;
}
torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           DataParallel& parallel) {
  parallel.load(archive);
  return archive;
}

DataParallel::NoSync DataParallel::no_sync() {
  impl_->reducer().pause();
  return NoSync(*this);
}

DataParallel::NoSync::~NoSync() {
  if (parallel_ != nullptr) parallel_->impl_->resume();
}

const std::vector<schedule::Bucket>& DataParallel::buckets() const {
  return impl_->reducer().plan();
}

const StepReport& DataParallel::last_step() const {
  return impl_->reducer().report();
}

}  // namespace paceline
