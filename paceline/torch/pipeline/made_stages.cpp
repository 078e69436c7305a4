#include "paceline/torch/pipeline/made_stages.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/plan/plan.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/pipeline/pipeline_options.h"
#include "paceline/torch/pipeline/whole_model.h"
#include "paceline/torch/precision/precision.h"
#include "paceline/torch/replica/replica.h"
#include "paceline/torch/tensor/parallelize.h"

namespace paceline::pipeline {
namespace {

template <typename Value>
Value value_of(Result<Value> result, const char* option) {
  if (result) return *std::move(result);
  Failure failure = result.error();
  failure.what = c10::str("PipelineOptions::", option, ": ", failure.what);
  throw Error(std::move(failure));
}

ScheduleChoice schedule_of(const PipelineOptions& options) {
  if (options.micro_batches < 1) {
    throw_misuse(c10::str("PipelineOptions::micro_batches is ", options.micro_batches,
                          ": a batch is cut into 1 or more"));
  }
  ScheduleChoice choice = value_of(parse_schedule(options.schedule), "schedule");
  if (!choice.entry.is_synchronous()) require_fitting(choice, options);
  return choice;
}

// The ranks of a stage take mini-batches in turn, which goes with stashing alone.
void require_turns(const PipelineOptions& options, const plan::StagePartition& partition,
                   DeviceMesh& mesh) {
  const std::string asked =
      c10::str("PipelineOptions::partition \"", options.partition, "\" replicates stages");
  const ScheduleChoice choice = parse_schedule(options.schedule).value();
  if (choice.entry.is_synchronous() ||
      choice.entry.versions(choice.settings) != VersionSync::stash) {
    throw_misuse(c10::str(asked, ", which take mini-batches in turn; schedule \"", options.schedule,
                          "\" cannot: choose \"pipedream\", or name stages without replicas and "
                          "let the mesh's dp replicate all of them"));
  }
  if (partition.ranks() != mesh.size("pp")) {
    throw_misuse(c10::str(asked, " and needs ", partition.ranks(), " ranks, and the mesh's pp has ",
                          mesh.size("pp"), ": take a mesh of \"pp=", partition.ranks(), "\""));
  }
  if (mesh.world().size() != mesh.size("pp")) {
    throw_misuse(c10::str(asked,
                          ", and the mesh has other axes than pp beside them: take a mesh of "
                          "\"pp=",
                          partition.ranks(), "\""));
  }
}

plan::StagePartition partition_for(const PipelineOptions& options, int layers, DeviceMesh& mesh) {
  const ScheduleChoice choice = schedule_of(options);
  const int stages = mesh.size("pp") * choice.entry.chunks_of(choice.settings);
  if (options.partition.empty()) return value_of(plan::even_cut(layers, stages), "partition");
  plan::StagePartition partition =
      value_of(plan::StagePartition::parse(options.partition, layers), "partition");
  if (!partition.is_straight()) {
    require_turns(options, partition, mesh);
  } else if (partition.size() != stages) {
    throw_misuse(c10::str("PipelineOptions::partition \"", options.partition, "\" makes ",
                          partition.size(), " stages, and schedule \"", options.schedule,
                          "\" on this mesh has ", stages, ": name so many"));
  }
  return partition;
}

Order order_for(const PipelineOptions& options, const plan::StagePartition& partition, int ranks) {
  if (partition.is_straight())
    return value_of(make_order(schedule_of(options), ranks, options.micro_batches), "schedule");
  std::vector<int> replicas;
  for (const plan::Stage& stage : partition.stages) replicas.push_back(stage.replicas);
  return order_of_turns(replicas, options.micro_batches);
}

std::vector<int> first_layers_of(const plan::StagePartition& partition) {
  std::vector<int> first;
  for (const plan::Stage& stage : partition.stages) first.push_back(stage.first);
  return first;
}

int recompute_every_of(const PipelineOptions& options) {
  return value_of(plan::Recompute::parse(options.recompute), "recompute").every;
}

// One rank keeps nobody waiting. Parameters that are gathered and gradients that are shared out in
// each pass are there during the pass alone, and what is computed again is there for one backward.
bool may_split_backward(const PipelineOptions& options, const Order& order) {
  constexpr int kWholeParameters = 1;
  return order.split_backward && order.ranks.size() > 1 &&
         options.training.zero_stage <= kWholeParameters && recompute_every_of(options) == 0;
}

void require_fitting(const PipelineOptions& options) {
  const DataParallelOptions& training = options.training;
  if (!options.loss) {
    throw_misuse(
        "PipelineOptions::loss is missing: set a function of the last layer's output and the "
        "target, such as [](auto& y, auto& t) { return torch::nn::functional::cross_entropy(y, t); "
        "}");
  }
  if (!options.optimizer == !training.optimizer) {
    throw_misuse(
        "a Pipeline needs either PipelineOptions::optimizer, a function that makes the optimizer "
        "of a stage's parameters, or training.optimizer, which makes one for each parameter: set "
        "one of them");
  }
  if (training.synchrony != "synchronous") {
    throw_misuse(c10::str("a Pipeline's replicas are kept in step by synchrony \"synchronous\"; \"",
                          training.synchrony, "\" does not go with it: leave it out"));
  }
  if (training.backward_passes_per_step != 1) {
    throw_misuse(
        "a Pipeline accumulates over its micro-batches: set micro_batches in place of "
        "backward_passes_per_step");
  }
}

// The entries of a plan that speak of layers of this module. Notes in `matched` which.
TensorPlan entries_for(const torch::nn::Module& module, const TensorPlan& plan,
                       std::vector<std::int32_t>& matched) {
  TensorPlan entries;
  const auto modules = module.named_modules("", /*include_self=*/false);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const auto is_meant = [&](const auto& item) {
      return tensor::matches(plan[i].path, item.key());
    };
    if (std::none_of(modules.begin(), modules.end(), is_meant)) continue;
    entries.push_back(plan[i]);
    matched[i] = 1;
  }
  return entries;
}

int dropouts_in(const torch::nn::Module& module) {
  const auto modules = module.modules();
  return static_cast<int>(std::ranges::count_if(
      modules, [](const auto& one) { return one->template as<DropoutImpl>() != nullptr; }));
}

}  // namespace

MadeStages::MadeStages(const Layers& layers, DeviceMesh& mesh, const PipelineOptions& options)
    : mesh_(mesh),
      stage_group_(mesh.group("pp")),
      partition_((require_fitting(options), partition_for(options, layers.size(), mesh))),
      order_(order_for(options, partition_, stage_group_.size())),
      precision_(options.training.precision),
      recompute_every_(recompute_every_of(options)),
      splits_backward_(may_split_backward(options, order_)),
      first_layers_(first_layers_of(partition_)) {
  const std::vector<int> own = order_.placement().stages_of(stage_group_.rank());
  if (!partition_.is_straight())
    turn_takers_ = stage_group_.split(own.front(), stage_group_.rank());
  for (const int stage : own) {
    const auto at = static_cast<std::size_t>(stage);
    const int last = stage + 1 < order_.stages ? first_layers_[at + 1] - 1 : layers.size() - 1;
    chunks_.push_back({stage, std::make_shared<StageModule>(layers, first_layers_[at], last)});
  }
  split_layers(options);
  ties_ = std::make_unique<TiedParameters>(layers.ties(), chunks_, stage_group_,
                                           options.training.zero_stage > 0);
  begin_training(options);
  drive_dropouts(layers, options.training.dropout_seed);
}

void MadeStages::split_layers(const PipelineOptions& options) {
  if (options.tensor_plan.empty()) return;
  std::vector<std::int32_t> matched(options.tensor_plan.size());
  for (Chunk& chunk : chunks_) {
    const TensorPlan entries = entries_for(*chunk.module, options.tensor_plan, matched);
    if (!entries.empty()) parallelize(*chunk.module, mesh_, entries);
  }
  if (stage_group_.size() > 1)
    stage_group_.all_reduce(buffer_of(matched), {.op = ReduceOp::max}).wait();
  for (std::size_t i = 0; i < matched.size(); ++i) {
    if (matched[i] != 0) continue;
    throw_misuse(c10::str("PipelineOptions::tensor_plan: no layer of the model is named '",
                          options.tensor_plan[i].path,
                          "': an entry names a layer as named_modules() of the whole model does"));
  }
}

// Options that decide on a step, or scale it, are of the whole model, and not of one stage.
DataParallelOptions MadeStages::stage_training(const DataParallelOptions& whole) {
  DataParallelOptions training = whole;
  training.max_grad_norm = 0;
  training.non_finite = {};
  const auto precision = precision::parse_precision(whole.precision).value();
  if (!precision.has_scaler()) return training;
  precision::require_fitting(precision, whole, /*has_model=*/true);
  loss_scale_.emplace(precision.scale, precision.interval, precision.floor);
  training.precision =
      precision.mode == precision::Mode::o1 ? "o1:dtype=fp16,scale=0" : "o2:dtype=fp16,scale=0";
  return training;
}

void MadeStages::begin_training(const PipelineOptions& options) {
  const DataParallelOptions training = stage_training(options.training);
  for (Chunk& chunk : chunks_) {
    optimizers_.emplace_back();
    if (chunk.module->parameters().empty()) continue;
    const bool has_plain_layers =
        mesh_.size("tp") > 1 && tensor::placements_of(*chunk.module).group() == nullptr;
    Communicator& replicas = turn_takers_ ? *turn_takers_ : mesh_.group("dp,cp");
    chunk.parallel = has_plain_layers || turn_takers_
                         ? std::make_unique<DataParallel>(*chunk.module, replicas, training)
                         : std::make_unique<DataParallel>(*chunk.module, mesh_, training);
    if (options.optimizer) optimizers_.back() = options.optimizer(chunk.parallel->parameters());
  }
}

// Layers are numbered in the whole model, so that masks do not depend on where it is cut.
void MadeStages::drive_dropouts(const Layers& layers, std::uint64_t seed) {
  clock_ = std::make_shared<tensor::DropoutClock>();
  *clock_ = {.seed = seed,
             .step = [this] { return pass_.value_or(steps_); },
             .replica = mesh_.rank("dp"),
             .replicas = mesh_.size("dp"),
             .context = mesh_.rank("cp"),
             .contexts = mesh_.size("cp")};
  std::vector<std::int32_t> counts(static_cast<std::size_t>(layers.size()));
  for (const Chunk& chunk : chunks_)
    for (int layer = chunk.module->first(); layer <= chunk.module->last(); ++layer)
      counts[static_cast<std::size_t>(layer)] = dropouts_in(chunk.module->layer(layer));
  if (stage_group_.size() > 1)
    stage_group_.all_reduce(buffer_of(counts), {.op = ReduceOp::max}).wait();
  for (const Chunk& chunk : chunks_) {
    std::uint32_t number = 0;
    for (int layer = 0; layer < chunk.module->first(); ++layer)
      number += static_cast<std::uint32_t>(counts[static_cast<std::size_t>(layer)]);
    for (const auto& module : chunk.module->modules(/*include_self=*/false))
      if (auto* const dropout = module->as<DropoutImpl>()) dropout->follow(clock_, number++);
  }
}

torch::optim::Optimizer* MadeStages::optimizer_of(int stage) {
  const auto chunk = std::ranges::find(chunks_, stage, &Chunk::stage);
  return optimizers_[static_cast<std::size_t>(chunk - chunks_.begin())].get();
}

std::vector<DataParallel*> MadeStages::data_parallels() {
  std::vector<DataParallel*> all;
  for (Chunk& chunk : chunks_)
    if (chunk.parallel) all.push_back(chunk.parallel.get());
  return all;
}

std::vector<torch::optim::Optimizer*> MadeStages::optimizers() {
  std::vector<torch::optim::Optimizer*> all;
  for (const auto& one : optimizers_)
    if (one) all.push_back(one.get());
  for (DataParallel* const each : data_parallels())
    for (torch::optim::Optimizer* const one : each->replicas().optimizers()) all.push_back(one);
  return all;
}

torch::OrderedDict<std::string, at::Tensor> MadeStages::state() {
  return whole_state(order_.placement(), chunks_, stage_group_);
}

std::string MadeStages::parameters_sha256() {
  return whole_sha256(order_.placement(), chunks_, stage_group_);
}

}  // namespace paceline::pipeline
