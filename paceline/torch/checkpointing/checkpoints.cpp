#include "paceline/torch/checkpointing/checkpoints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/core/base/disk.h"
#include "paceline/core/base/log.h"
#include "paceline/core/base/processors.h"
#include "paceline/core/checkpoint/checkpoint.h"
#include "paceline/core/collective/group/values.h"
#include "paceline/core/coordination/pause_point.h"
#include "paceline/torch/checkpointing/checkpoint_part.h"
#include "paceline/torch/checkpointing/common_failure.h"
#include "paceline/torch/checkpointing/held_tensor.h"
#include "paceline/torch/checkpointing/resuming.h"
#include "paceline/torch/checkpointing/saved_item.h"
#include "paceline/torch/checkpointing/saving.h"
#include "paceline/torch/checkpointing/stop_signals.h"
#include "paceline/torch/strategy/server/others_wait.h"
#include "paceline/torch/strategy/strategy.h"

namespace paceline {

using namespace checkpointing;
using checkpoint::CheckpointDirectory;
using checkpoint::DirectoryLock;

namespace {

constexpr const char* kOptimizerItem = "optimizer";
// The reasons of a pause.
constexpr std::uint32_t kSave = 1, kStop = 2;
constexpr int kStoppedBySigterm = 143;  // 128 + SIGTERM, as a shell tells it
// A file that another host has written may be seen later over a network.
constexpr auto kSharedWithin = std::chrono::seconds(5);

// The texts that the other ranks tell.
std::vector<std::string> told_by_others(Communicator& group, const std::vector<std::string>& own) {
  const std::vector<std::string> all =
      all_gather_bytes(group, fmt::format("{}", fmt::join(own, "\n")));
  std::vector<std::string> others;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (static_cast<int>(rank) == group.rank()) continue;
    std::istringstream lines(all[rank]);
    for (std::string line; std::getline(lines, line);) others.push_back(line);
  }
  return others;
}

}  // namespace

class Checkpoints::Impl {
 public:
  Impl(Job& job, std::string directory, const CheckpointOptions& options);

  void add(NamedPart part);
  void add_model(std::string name, const torch::nn::Module& model);
  PartPtr part_of(torch::optim::Optimizer& optimizer);
  void add_parallel(std::string name, DataParallel& parallel);
  void add_pipeline(const std::string& name, Pipeline& pipeline);
  std::int64_t resume();
  void save_if_due(std::int64_t step);
  bool save(std::int64_t step);
  void wait_for_all_ranks();
  bool stopping() const { return saving_.is_stop_asked() || is_stopped_; }
  int finish();

 private:
  std::vector<at::Device> devices() const;
  HowHeld how_held() const;
  HowHeld how_held_by(pipeline::MadeStages& stages) const;
  // `ties`: of a pipeline's stages; null: it is no stage.
  void name_leaves(const std::string& name, DataParallel& parallel,
                   const pipeline::TiedParameters* ties = nullptr);
  void take_directory();
  void require_shared(const std::string& owner);
  bool all_wait() const;
  void take_model(std::size_t parallel, const std::vector<std::string>& loaded);
  void go_on_from(std::uint64_t step);
  void begin_steps();
  void make_pauses();
  void wait_for(const Work& round) const;
  void begin_save(std::int64_t step);
  void save_in_pauses(StopSignals::Asked asked);
  void save_in(const coordination::Pause& pause);
  bool is_due(std::int64_t step) const;

  Job& job_;
  const CheckpointOptions options_;
  const std::unique_ptr<Communicator> group_;
  SystemDisk disk_;
  CheckpointDirectory directory_;
  std::optional<DirectoryLock> lock_;  // rank 0's
  ParameterNames names_;
  std::vector<const torch::nn::Module*> models_;
  std::vector<DataParallel*> parallels_;
  std::vector<std::string> parallel_names_;  // as many
  std::vector<Pipeline*> pipelines_;
  std::vector<NamedPart> parts_;
  Resuming resuming_;
  bool was_resumed_ = false;
  bool has_begun_ = false;
  std::int64_t own_step_ = 0;     // of this rank, the last that it has ended
  std::int64_t saved_step_ = -1;  // the last one of which a save was begun
  bool round_follows_save_ = false;
  StopSignals signals_;
  Saving saving_;
  // Ranks that do not wait for each other agree in pauses, others by rounds.
  std::optional<coordination::PausePoint> pauses_;
  bool is_stopped_ = false;  // in a pause
};

// --- the directory -------------------------------------------------------------------------------

Checkpoints::Impl::Impl(Job& job, std::string directory, const CheckpointOptions& options)
    : job_(job),
      options_(options),
      group_(job.world().split(0)),
      directory_(disk_, std::move(directory)),
      resuming_({job.id(), job.generation()}, *group_, disk_, directory_, options),
      saving_(*group_, disk_, directory_,
              {.job = job.id(),
               .generation = job.generation(),
               .on_committed = [&job](std::uint64_t step) { job.report_saved(step); },
               .wait = [this](const Work& round) { wait_for(round); }},
              {options.keep_last, options.keep_every}) {
  if (options.every < 0)
    throw_misuse(
        fmt::format("CheckpointOptions::every is {}: give the number of steps between "
                    "saves, or 0",
                    options.every));
  take_directory();
  parts_.push_back(
      {kRandomItem, random_part([this] { return devices(); }), NamedPart::Kind::random});
}

void Checkpoints::Impl::take_directory() {
  const std::string owner =
      fmt::format("job {}, host {}, process {}", job_.id(), host_name(), ::getpid());
  together(*group_, [&] {
    if (group_->rank() != 0) return;
    // A link to a directory is as good as one.
    std::error_code not_there;
    if (!std::filesystem::is_directory(directory_.path(), not_there))
      disk_.make_directory(directory_.path()).value();
    lock_.emplace(
        DirectoryLock::take(directory_.path(), owner, {job_.id(), job_.generation()}).value());
    resuming_.settle_old_ones();
  });
  require_shared(broadcast_bytes(*group_, owner));
}

void Checkpoints::Impl::require_shared(const std::string& owner) {
  together(*group_, [&] {
    const Deadline deadline = Deadline::in(kSharedWithin);
    std::string why;
    for (;;) {
      const auto seen = DirectoryLock::owner_of(directory_.path());
      if (seen && seen.value() == owner) return;
      why = seen ? "it was held last by " + seen.value() : seen.error().what;
      if (deadline.passed()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    throw_misuse(fmt::format(
        "rank {} on host {} does not see the directory {} that rank 0 saves into ({}): {}; give "
        "one that all hosts share",
        group_->rank(), host_name(), directory_.path(), owner, why));
  });
}

// --- items ---------------------------------------------------------------------------------------

void Checkpoints::Impl::add(NamedPart part) {
  const std::string& name = part.name;
  if (was_resumed_)
    throw_misuse(fmt::format("'{}' was added to checkpoints after resume(): add it before", name));
  if (name == kStepsItem)
    throw_misuse(fmt::format("checkpoints keep an item '{}' themselves: take another name", name));
  if (!checkpoint::is_plain_name(name))
    throw_misuse(
        fmt::format("'{}' cannot name an item of a checkpoint, because files are named by "
                    "it: take letters, digits, '.', '_' and '-'",
                    name));
  if (std::ranges::find(parts_, name, &NamedPart::name) != parts_.end())
    throw_misuse(fmt::format("checkpoints have an item '{}' already{}: take another name", name,
                             name == kOptimizerItem && !parallels_.empty()
                                 ? ", which may be that of DataParallelOptions::optimizer"
                                 : ""));
  part.part->require_savable(name);
  parts_.push_back(std::move(part));
}

void Checkpoints::Impl::add_model(std::string name, const torch::nn::Module& model) {
  add({name, model_part(model, how_held()), NamedPart::Kind::model});
  models_.push_back(&model);
  for (const auto& entry : model.named_parameters())
    names_.add(entry.value(), name + "." + entry.key());
}

// CUDA devices that hold models of this rank, in the order of the models.
std::vector<at::Device> Checkpoints::Impl::devices() const {
  std::vector<at::Device> found;
  for (const torch::nn::Module* const model : models_)
    for (const at::Tensor& parameter : model->parameters())
      if (parameter.is_cuda() && std::ranges::find(found, parameter.device()) == found.end())
        found.push_back(parameter.device());
  return found;
}

HowHeld Checkpoints::Impl::how_held() const {
  return [this](const std::string& name, const at::Tensor& parameter, const at::Tensor& tensor) {
    return held_tensor(parallels_, name, parameter, tensor);
  };
}

PartPtr Checkpoints::Impl::part_of(torch::optim::Optimizer& optimizer) {
  return optimizer_part([&optimizer] { return std::vector<torch::optim::Optimizer*>{&optimizer}; },
                        names_, how_held(), *group_);
}

void Checkpoints::Impl::add_parallel(std::string name, DataParallel& data_parallel) {
  name_leaves(name, data_parallel);
  // Its synchrony decides which tensors are each rank's own.
  add({.name = name, .part = replicas_part(data_parallel), .is_loaded_first = true});
  parallels_.push_back(&data_parallel);
  parallel_names_.push_back(std::move(name));
  if (data_parallel.replicas().optimizers().empty()) return;
  add({.name = kOptimizerItem,
       .part = optimizer_part([&data_parallel] { return data_parallel.replicas().optimizers(); },
                              names_, how_held(), *group_)});
}

void Checkpoints::Impl::name_leaves(const std::string& name, DataParallel& data_parallel,
                                    const pipeline::TiedParameters* ties) {
  const replica::Replicas& replicas = data_parallel.replicas();
  for (const replica::Parameter& master : replicas.masters())
    names_.add(master.tensor, name + "." + (ties ? ties->saved_name(master.name) : master.name));
  const replica::ParameterPieces* const pieces = replicas.synchrony().pieces();
  if (pieces == nullptr) return;
  const std::vector<replica::Parameter>& dense = replicas.parts().dense;
  for (const replica::ParameterPiece& piece : pieces->own)
    names_.add_piece(piece.leaf, dense[piece.parameter].tensor);
  for (std::size_t i = 0; i < dense.size(); ++i)
    if (pieces->find(i) == nullptr) names_.add_elsewhere(dense[i].tensor);
}

// A stage's tensors are alike on its replicas alone.
HowHeld Checkpoints::Impl::how_held_by(pipeline::MadeStages& stages) const {
  return [this, &stages](const std::string& name, const at::Tensor& parameter,
                         const at::Tensor& tensor) {
    const pipeline::TiedParameters& ties = stages.ties();
    std::vector<ItemTensor> held =
        held_tensor(parallels_, ties.saved_name(name), parameter, tensor);
    const bool is_copy = ties.is_copy(parameter);
    for (ItemTensor& one : held) {
      if (one.held == Held::by_all) {
        const auto sizes = one.tensor.sizes();
        one.held = Held::in_parts;
        one.part = {.whole = {sizes.begin(), sizes.end()},
                    .offset = checkpoint::Extents(sizes.size(), 0),
                    .is_saved_here = stages.is_first_replica()};
      }
      if (is_copy) one.part.is_saved_here = false;
    }
    return held;
  };
}

void Checkpoints::Impl::add_pipeline(const std::string& name, Pipeline& pipeline) {
  pipeline::MadeStages& stages = pipeline.made_stages();
  const std::string prefix = name == "pipeline" ? "" : name + ".";
  const std::string model = prefix + "model", parallel = prefix + "parallel";
  std::vector<const torch::nn::Module*> modules;
  std::vector<std::string> tensors, stepped;
  for (const torch::nn::Module* const module : pipeline.modules()) {
    modules.push_back(module);
    for (const auto& entry : module->named_parameters()) {
      const std::string saved = stages.ties().saved_name(entry.key());
      names_.add(entry.value(), model + "." + saved);
      tensors.push_back(saved);
    }
    for (const auto& entry : module->named_buffers()) tensors.push_back(entry.key());
  }
  for (DataParallel* const each : stages.data_parallels()) {
    name_leaves(parallel, *each, &stages.ties());
    parallels_.push_back(each);
    parallel_names_.push_back(parallel);
  }
  for (const torch::optim::Optimizer* const optimizer : stages.optimizers())
    for (const auto& group : optimizer->param_groups())
      for (const at::Tensor& leaf : group.params()) stepped.push_back(names_.of(leaf));
  for (const std::string& other : told_by_others(*group_, stepped)) names_.add_elsewhere(other);
  add({model,
       model_part(std::move(modules), how_held_by(stages),
                  told_by_others(stages.stage_group(), tensors)),
       NamedPart::Kind::model});
  add({.name = parallel,
       .part = pipeline_part(stages, how_held_by(stages)),
       .is_loaded_first = true});
  add({.name = prefix + kOptimizerItem,
       .part = optimizer_part([&stages] { return stages.optimizers(); }, names_,
                              how_held_by(stages), *group_)});
  pipelines_.push_back(&pipeline);
}

// --- resuming ------------------------------------------------------------------------------------

bool Checkpoints::Impl::all_wait() const {
  return std::ranges::all_of(parallels_, [](DataParallel* parallel) {
    return parallel->replicas().synchrony().is_lockstep();
  });
}

std::int64_t Checkpoints::Impl::resume() {
  if (was_resumed_)
    throw_misuse("Checkpoints::resume() was called twice: call it once, at the start");
  was_resumed_ = true;
  for (const NamedPart& part : parts_) part.part->require_complete();
  if (const auto step = resuming_.find(parts_)) go_on_from(*step);
  make_pauses();
  return own_step_;
}

void Checkpoints::Impl::go_on_from(std::uint64_t step) {
  saving_.is_verified(step);
  saved_step_ = static_cast<std::int64_t>(step);
  const Resuming::Loaded loaded = resuming_.load(step, parts_, !all_wait());
  for (std::size_t i = 0; i < parallels_.size(); ++i) take_model(i, loaded.items);
  own_step_ = loaded.own_step;
}

// A training that keeps a state beside the model, and did not load it, makes it from the loaded
// model.
void Checkpoints::Impl::take_model(std::size_t parallel, const std::vector<std::string>& loaded) {
  DataParallel& taking = *parallels_[parallel];
  const bool has_state = std::ranges::find(loaded, parallel_names_[parallel]) != loaded.end();
  if (has_state || taking.replicas().options().zero_stage > 0) taking.replicas().leaves_changed();
  else taking.rebind(taking.replicas().group());
}

// --- saving --------------------------------------------------------------------------------------

// The training has begun, and all ranks make the same call.
void Checkpoints::Impl::begin_steps() {
  if (std::exchange(has_begun_, true)) return;
  for (DataParallel* const parallel : parallels_) {
    const std::string& synchrony = parallel->replicas().options().synchrony;
    if (!strategy::parse_strategy(synchrony).value().strategy.closes_without_some) continue;
    throw_misuse(
        fmt::format("checkpoints do not go with synchrony '{}', whose steps close without some "
                    "ranks: a rank that stands still to save could hold up the others for ever. "
                    "Save under bsp, ssp, bounded_delay or asp",
                    synchrony));
  }
  make_pauses();
}

// All ranks make them together, so before the first step if they can: in it, some may wait for
// others.
void Checkpoints::Impl::make_pauses() {
  if (pauses_ || all_wait()) return;
  strategy::let_others_go_on(job_);
  pauses_.emplace(*group_);
}

// A stage tells which micro-batch it has to compute next.
void Checkpoints::Impl::wait_for(const Work& round) const {
  if (pipelines_.empty()) round.wait();
  else pipelines_.front()->wait_between_steps(round);
}

void Checkpoints::Impl::begin_save(std::int64_t step) {
  saving_.wait();
  for (Pipeline* const pipeline : pipelines_) pipeline->finish();
  for (DataParallel* const parallel : parallels_) parallel->finish();
  std::vector<NamedState> states;
  for (const NamedPart& part : parts_) states.push_back({part.name, part.part->state()});
  if (pauses_) states.push_back({kStepsItem, rank_step_state(own_step_)});
  saving_.begin(static_cast<std::uint64_t>(step), states);
  saved_step_ = step;
}

void Checkpoints::Impl::save_if_due(std::int64_t step) {
  begin_steps();
  own_step_ = step;
  for (const NamedPart& part : parts_) part.part->step_ended();
  const StopSignals::Asked asked = signals_.take();
  if (pauses_) return save_in_pauses(asked);
  if (asked.save || asked.stop) saving_.ask(asked.stop);
  saving_.read_round();
  // Ranks told of these signals in the round after a save, so they had come before it and were
  // served by it. The end of the run, however, is after this step, which must be saved too.
  const bool is_asked = saving_.take_asked_save() && (!round_follows_save_ || stopping());
  const bool is_on_time = options_.every > 0 && step % options_.every == 0;
  round_follows_save_ = (is_asked || is_on_time) && step != saved_step_;
  if (round_follows_save_) {
    // A signal that came while this rank waited for the round came before the save, too.
    if (signals_.take().stop) saving_.ask(/*stop=*/true);
    begin_save(step);
  }
  saving_.begin_round();
}

// A rank that takes parts of batches as they come may pass over the step that is due.
bool Checkpoints::Impl::is_due(std::int64_t step) const {
  return options_.every > 0 &&
         step / options_.every > std::max<std::int64_t>(saved_step_, 0) / options_.every;
}

void Checkpoints::Impl::save_in_pauses(StopSignals::Asked asked) {
  std::uint32_t reasons = 0;
  if (asked.save || (group_->rank() == 0 && is_due(own_step_))) reasons |= kSave;
  if (asked.stop) reasons |= kStop;
  if (reasons == 0 && !pauses_->is_called()) return;
  strategy::let_others_go_on(job_);
  if (reasons != 0) save_in(pauses_->call(reasons, own_step_));
  else if (const auto pause = pauses_->at_step(own_step_)) save_in(*pause);
}

// The furthest rank may stand where it stood at the save before, while others have gone on: that
// takes the next number. All ranks wait until it is written: they have no rounds in which they
// could hear of it later.
void Checkpoints::Impl::save_in(const coordination::Pause& pause) {
  is_stopped_ = is_stopped_ || (pause.reasons & kStop) != 0;
  begin_save(std::max(pause.step, saved_step_ + 1));
  saving_.wait();
}

void Checkpoints::Impl::wait_for_all_ranks() {
  begin_steps();
  if (!pauses_) return;
  strategy::let_others_go_on(job_);
  while (const auto pause = pauses_->wait_for_pause(own_step_)) {
    save_in(*pause);
    strategy::let_others_go_on(job_);
  }
}

bool Checkpoints::Impl::save(std::int64_t step) {
  wait_for_all_ranks();
  own_step_ = step;
  if (pauses_) {
    group_->all_reduce(buffer_of(std::span(&step, 1)), {.op = ReduceOp::max}).wait();
    step = std::max(step, saved_step_ + 1);
  }
  begin_save(step);
  return saving_.wait();
}

int Checkpoints::Impl::finish() {
  wait_for_all_ranks();
  saving_.wait();
  return stopping() ? kStoppedBySigterm : 0;
}

// --- the face ------------------------------------------------------------------------------------

Checkpoints::Checkpoints(Job& job, std::string directory, const CheckpointOptions& options)
    : impl_(std::make_unique<Impl>(job, std::move(directory), options)) {}
Checkpoints::~Checkpoints() = default;

void Checkpoints::add(std::string name, const torch::nn::Module& model) {
  impl_->add_model(std::move(name), model);
}
void Checkpoints::add(std::string name, torch::optim::Optimizer& optimizer) {
  impl_->add({std::move(name), impl_->part_of(optimizer)});
}
void Checkpoints::add(std::string name, Pipeline& pipeline) {
  impl_->add_pipeline(name, pipeline);
}

void Checkpoints::add(std::string name, DataParallel& parallel) {
  impl_->add_parallel(std::move(name), parallel);
}
void Checkpoints::add(std::string name, data::DistributedSampler& sampler) {
  impl_->add({std::move(name), data_part(sampler)});
}
void Checkpoints::add(std::string name, torch::optim::LRScheduler& scheduler) {
  impl_->add({std::move(name), scheduler_part(scheduler)});
}
void Checkpoints::add(std::string name, torch::optim::ReduceLROnPlateauScheduler& scheduler) {
  impl_->add({std::move(name), scheduler_part(scheduler)});
}
void Checkpoints::add(std::string name, server::SparseTable& table) {
  impl_->add({std::move(name), sparse_part(table)});
}
void Checkpoints::add_fields(std::string name, std::function<void(CheckpointFields&)> visit) {
  impl_->add({std::move(name), fields_part(std::move(visit))});
}
std::int64_t Checkpoints::resume() {
  return impl_->resume();
}
void Checkpoints::save_if_due(std::int64_t step) {
  impl_->save_if_due(step);
}
bool Checkpoints::save(std::int64_t step) {
  return impl_->save(step);
}
void Checkpoints::wait_for_all_ranks() {
  impl_->wait_for_all_ranks();
}
bool Checkpoints::stopping() const {
  return impl_->stopping();
}
int Checkpoints::finish() {
  return impl_->finish();
}

}  // namespace paceline
