#include "paceline/torch/parallel/trained_parts.h"

#include <c10/util/StringUtil.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/log.h"
#include "paceline/torch/strategy/strategy.h"
#include "paceline/torch/tensor/tensor.h"

namespace paceline::parallel {
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
replica::ModelParts split_parts_of(const torch::nn::Module& model, DeviceMesh* mesh,
                                   const DataParallelOptions& options) {
  if (mesh != nullptr) require_no_servers_beside(*mesh, options.synchrony);
  replica::ModelParts parts = replica::parts_of(model, options.sparse);
  parts.placements = tensor::placements_of(model);
  const bool is_split = parts.placements.group() != nullptr;
  if (mesh != nullptr && is_split) require_synchronous(options);
  if (mesh != nullptr && !is_split) require_split_layers(*mesh);
  if (mesh == nullptr && is_split) require_mesh_for_scale(options);
  return parts;
}

// The choice is refused before anything changes.
precision::PrecisionChoice checked_choice(const DataParallelOptions& options, bool has_model) {
  require_in_range(options);
  const precision::PrecisionChoice choice = precision::parse_precision(options.precision).value();
  precision::require_fitting(choice, options, has_model);
  return choice;
}

void require(bool is_in_range, const char* option, const std::string& value, const char* range) {
  if (is_in_range) return;
  throw_misuse(c10::str("DataParallelOptions::", option, " is ", value, "; it is ", range));
}

}  // namespace

// Ranks that share sequences are one replica, whose parameters must be the same in each step.
void require_no_servers_beside(DeviceMesh& mesh, const std::string& synchrony) {
  auto choice = strategy::parse_strategy(synchrony);
  if (mesh.size("cp") == 1 || !choice || !choice->on_servers()) return;
  throw_misuse(
      "DataParallel: the mesh has an axis cp, whose ranks share sequences, and synchrony '" +
      synchrony +
      "' keeps the parameters of each rank apart: take a mesh of dp alone, or "
      "\"synchronous\"");
}

TrainedParts trained_parts_of(torch::nn::Module& model, DeviceMesh* mesh,
                              const DataParallelOptions& options) {
  replica::ModelParts parts = split_parts_of(model, mesh, options);
  const precision::PrecisionChoice choice = checked_choice(options, true);
  if (choice.mode == precision::Mode::o1) precision::require_float32(parts);
  if (choice.mode != precision::Mode::o2) return {std::move(parts), choice};
  auto halved = precision::halve(model, parts, choice.type, [](const torch::nn::Module& module) {
    return module.as<LayerNormImpl>() != nullptr;
  });
  return {std::move(parts), choice, std::move(halved)};
}

TrainedParts trained_parts_of(const std::vector<replica::Parameter>& parameters,
                              const DataParallelOptions& options) {
  replica::ModelParts parts = replica::parts_of(parameters, options.sparse);
  return {std::move(parts), checked_choice(options, false)};
}

void warn_of_a_slow_processor(const precision::PrecisionChoice& choice, const Communicator& ranks) {
  const std::vector<int> hosts = ranks.topology().host_of_ranks();
  const int first = static_cast<int>(
      std::ranges::find(hosts, hosts[static_cast<std::size_t>(ranks.rank())]) - hosts.begin());
  if (first != ranks.rank()) return;
  const std::string slowness =
      precision::slowness_of(choice, precision::processor_multiplies(choice.type));
  if (!slowness.empty()) warn(slowness);
}

void require_in_range(const DataParallelOptions& options) {
  require(options.backward_passes_per_step >= 1, "backward_passes_per_step",
          c10::str(options.backward_passes_per_step), "a number of backward passes, at least 1");
  require(options.check_replicas_every >= 0, "check_replicas_every",
          c10::str(options.check_replicas_every), "a number of steps, or 0 for no check");
  require(std::isfinite(options.max_grad_norm) && options.max_grad_norm >= 0, "max_grad_norm",
          c10::str(options.max_grad_norm), "a norm above 0, or 0 for none");
  require(options.zero_stage >= 0 && options.zero_stage <= 3, "zero_stage",
          c10::str(options.zero_stage),
          "0, which shards nothing, 1 the optimizer's state, 2 gradients too, or 3 parameters too");
  require(options.zero_prefetch >= 0, "zero_prefetch", c10::str(options.zero_prefetch),
          "a number of units, 0 for none");
}

}  // namespace paceline::parallel
