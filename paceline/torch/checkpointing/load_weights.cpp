#include "paceline/torch/checkpointing/load_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include "paceline/core/base/base.h"
#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/checkpoint.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/checkpointing/common_failure.h"
#include "paceline/torch/checkpointing/held_tensor.h"
#include "paceline/torch/checkpointing/resuming.h"
#include "paceline/torch/checkpointing/saved_item.h"
#include "paceline/torch/pipeline/made_stages.h"
#include "paceline/torch/replica/replica.h"

namespace paceline {

namespace checkpointing {
namespace {

using checkpoint::LogicalTensor;
using checkpoint::Manifest;

constexpr const char* kMasterPrefix = "master.";  // as an item of a DataParallel names them

// A tensor of the model, and what of it this rank writes.
struct WeightTarget {
  std::vector<std::string> names;  // more than one: it is tied
  std::vector<ItemTensor> parts;

  const at::Tensor& like() const { return parts.front().tensor; }
  checkpoint::Extents shape() const {
    const ItemTensor& one = parts.front();
    if (one.held == Held::in_parts) return one.part.whole;
    return {one.tensor.sizes().begin(), one.tensor.sizes().end()};
  }
};

// The tensors of a model under all their names; `parts_of` tells what this rank writes.
template <typename PartsOf>
std::vector<WeightTarget> targets_of(const torch::nn::Module& model, const PartsOf& parts_of) {
  std::vector<WeightTarget> targets;
  std::vector<at::Tensor> seen;
  const auto add = [&](const auto& named) {
    for (const auto& entry : named) {
      if (!entry.value().defined()) continue;
      const auto found = std::ranges::find_if(
          seen, [&](const at::Tensor& one) { return one.is_same(entry.value()); });
      if (found != seen.end()) {
        targets[static_cast<std::size_t>(found - seen.begin())].names.push_back(entry.key());
        continue;
      }
      seen.push_back(entry.value());
      targets.push_back({{entry.key()}, parts_of(entry.key(), entry.value())});
    }
  };
  add(model.named_parameters());
  add(model.named_buffers());
  return targets;
}

std::vector<ItemTensor> in_own_memory(const std::string& name, const at::Tensor& tensor) {
  if (tensor.numel() > 0 && tensor.storage().nbytes() == 0) {
    throw_misuse(fmt::format(
        "load_weights(): parameter '{}' lies on other ranks (zero_stage 3): all ranks call "
        "load_weights(parallel, directory)",
        name));
  }
  return {{name, tensor.detach()}};
}

// One tensor is read from here.
struct WeightSource {
  const SavedItem* item = nullptr;
  std::string name;
  std::vector<const LogicalTensor*> copies;  // several: those of replicas that differed
};

std::string described(Dtype dtype, const checkpoint::Extents& shape) {
  return fmt::format("{}[{}]", name_of(dtype), fmt::join(shape, ", "));
}

// The step that `directory` is, or the newest one in it that is whole.
std::string step_directory(Disk& disk, const std::string& directory) {
  const checkpoint::CheckpointDirectory run(disk, directory);
  for (const Disk::Entry& entry : disk.list(directory).value()) {
    if (entry.name != checkpoint::kManifestName) continue;
    const Manifest manifest = checkpoint::read_manifest(disk, directory).value();
    const auto damages = checkpoint::damages(disk, directory, manifest);
    if (damages.empty()) return directory;
    throw Error(
        {Fault::io,
         fmt::format("{}/{} is damaged: {}", directory, damages.front().file, damages.front().what),
         {}});
  }
  const ResumePoint point = find_resume_point(disk, run);
  if (point.step) return run.path_of(*point.step);
  throw Error({Fault::io,
               point.damaged.empty()
                   ? fmt::format("there is no checkpoint in {}: give the directory of a run, or of "
                                 "one of its steps",
                                 directory)
                   : fmt::format("no checkpoint in {} is whole: {}", directory,
                                 fmt::join(point.damaged, "; ")),
               {}});
}

class WeightReader {
 public:
  WeightReader(const std::string& directory, const LoadWeightsOptions& options)
      : options_(options),
        path_(step_directory(disk_, directory)),
        manifest_(checkpoint::read_manifest(disk_, path_).value()),
        reader_(disk_, path_) {
    for (const checkpoint::Item& item : manifest_.items)
      items_.emplace_back(path_, manifest_, item, reader_, 0);
    const auto found = std::ranges::find(items_, options.item, &SavedItem::name);
    if (found == items_.end()) {
      std::vector<std::string> names;
      for (const SavedItem& item : items_) names.push_back(item.name());
      throw_misuse(
          fmt::format("{} has no item '{}': it has '{}'. Give the model's name as "
                      "LoadWeightsOptions::item",
                      path_, options.item, fmt::join(names, "', '")));
    }
    model_ = &*found;
  }

  // Finds a source for each target. Writes nothing.
  // `elsewhere`: the names of tensors that other ranks of the model have.
  LoadedWeights match(const std::vector<WeightTarget>& targets,
                      const std::vector<std::string>& elsewhere = {}) {
    LoadedWeights report{.path = path_, .step = manifest_.step};
    std::set<std::string> known(elsewhere.begin(), elsewhere.end());
    for (const WeightTarget& target : targets) {
      known.insert(target.names.begin(), target.names.end());
      sources_.push_back(source_of(target, report));
      if (sources_.back().item != nullptr) report.loaded.push_back(target.names.front());
    }
    for (const std::string& name : model_->tensor_names())
      if (!known.contains(name)) report.unexpected.push_back(name);
    return report;
  }

  // THROWS Error (misuse): options.strict refuses what the report tells.
  void require_all(const LoadedWeights& report) const {
    if (!options_.strict) return;
    if (report.missing.empty() && report.unexpected.empty() && report.other_shape.empty()) return;
    throw_misuse("load_weights(): the model and the checkpoint differ, so nothing is loaded: " +
                 report.text() +
                 ". Take {.strict = false} to load the others, and leave these as they are");
  }

  // REQUIRES: match() returned for the same targets.
  void read(const std::vector<WeightTarget>& targets) const {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (sources_[i].item == nullptr) continue;
      for (const ItemTensor& part : targets[i].parts) read(sources_[i], part);
    }
  }

 private:
  WeightSource source_of(const WeightTarget& target, LoadedWeights& report) const {
    for (const std::string& name : target.names) {
      WeightSource source = copies_of(*model_, name);
      if (source.copies.empty()) continue;
      if (const SavedItem* const masters = item_of_master(source))
        source = copies_of(*masters, kMasterPrefix + name);
      const LogicalTensor& saved = *source.copies.front();
      if (saved.shape == target.shape() && fits(saved, target.like())) return source;
      report.other_shape.push_back(fmt::format(
          "{}: {} in the checkpoint, {} here", name, described(saved.dtype, saved.shape),
          described(*dtype_of(target.like().scalar_type()), target.shape())));
      return {};
    }
    report.missing.push_back(target.names.front());
    return {};
  }

  // The item that has the float32 values which were rounded to those of `source`; null: there is
  // none. Other models of the checkpoint may have masters of the same names.
  const SavedItem* item_of_master(const WeightSource& source) const {
    const LogicalTensor& rounded = *source.copies.front();
    if (source.copies.size() > 1 || size_of(rounded.dtype) != 2) return nullptr;
    for (const SavedItem& item : items_) {
      const LogicalTensor* const master = item.find_of(kMasterPrefix + source.name, -1);
      if (master == nullptr || master->shape != rounded.shape) continue;
      const at::Tensor value = whole(*source.item, rounded);
      if (at::equal(whole(item, *master).to(value.scalar_type()), value)) return &item;
    }
    return nullptr;
  }

  static at::Tensor whole(const SavedItem& item, const LogicalTensor& tensor) {
    const std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    at::Tensor read = at::empty(shape, scalar_type_of(tensor.dtype));
    item.read_into(tensor, read);
    return read;
  }

  // Floating types are converted into each other, others must be the same.
  static bool fits(const LogicalTensor& saved, const at::Tensor& like) {
    return scalar_type_of(saved.dtype) == like.scalar_type() ||
           (like.is_floating_point() && c10::isFloatingType(scalar_type_of(saved.dtype)));
  }

  static WeightSource copies_of(const SavedItem& item, const std::string& name) {
    WeightSource source{.item = &item, .name = name};
    if (const LogicalTensor* const common = item.find_of(name, -1)) {
      source.copies.push_back(common);
      return source;
    }
    for (int rank = 0; rank < item.ranks(); ++rank)
      if (const LogicalTensor* const own = item.find_of(name, rank)) source.copies.push_back(own);
    return source;
  }

  static void read(const WeightSource& source, const ItemTensor& part) {
    const auto options = at::TensorOptions(scalar_type_of(source.copies.front()->dtype));
    if (part.held == Held::in_parts && part.tensor.numel() == 0) return;
    if (source.copies.size() == 1 && part.held == Held::in_parts) {
      ItemTensor read = part;
      read.name = source.name;
      read.tensor = at::empty(part.tensor.sizes(), options);
      source.item->read_into(read);
      part.tensor.copy_(read.tensor);
      return;
    }
    at::Tensor sum;
    for (const LogicalTensor* const one : source.copies) {
      const at::Tensor read = whole(*source.item, *one);
      if (source.copies.size() == 1 ||
          !read.is_floating_point()) {  // counts are as rank 0 has them
        sum = read;
        break;
      }
      sum = sum.defined() ? sum.add_(read.to(at::kDouble)) : read.to(at::kDouble);
    }
    if (sum.is_floating_point() && source.copies.size() > 1)
      sum.div_(static_cast<double>(source.copies.size()));
    if (part.held == Held::in_parts) {
      for (std::size_t d = 0; d < part.part.offset.size(); ++d)
        sum =
            sum.narrow(static_cast<std::int64_t>(d), static_cast<std::int64_t>(part.part.offset[d]),
                       part.tensor.size(static_cast<std::int64_t>(d)));
    }
    part.tensor.copy_(sum);
  }

  SystemDisk disk_;
  const LoadWeightsOptions options_;
  const std::string path_;
  const Manifest manifest_;
  checkpoint::CheckpointReader reader_;
  std::vector<SavedItem> items_;
  const SavedItem* model_ = nullptr;
  std::vector<WeightSource> sources_;
};

// A parameter's master, or the tensor itself.
const at::Tensor& stepped(const at::Tensor& tensor,
                          const std::vector<replica::Parameter>& masters) {
  for (const replica::Parameter& one : masters)
    if (one.computed.is_same(tensor)) return one.tensor;
  return tensor;
}

// How this rank holds a tensor that one of `parallels` trains, or none.
auto held_by(const std::vector<DataParallel*>& parallels,
             const std::vector<replica::Parameter>& masters) {
  return [parallels, &masters](const std::string& name, const at::Tensor& tensor) {
    const at::Tensor& own = stepped(tensor, masters);
    return held_tensor(parallels, name, own, own);
  };
}

// A tied parameter may be there under the name of the other one.
void name_ties(WeightTarget& target, const pipeline::TiedParameters& ties) {
  const std::string other = ties.other_name(target.names.front());
  if (!other.empty()) target.names.push_back(other);
}

// It computes with what was written into masters and leaves.
void take_over(DataParallel& parallel) {
  const at::NoGradGuard no_grad;
  replica::Replicas& replicas = parallel.replicas();
  for (const replica::Parameter& one : replicas.masters())
    at::Tensor(one.computed.detach()).copy_(one.tensor);
  if (replicas.synchrony().pieces() != nullptr) replicas.leaves_changed();
}

// The lines of all stages, the first rank's first. Collective.
std::vector<std::string> of_all_stages(Communicator& stages, const std::vector<std::string>& own) {
  std::vector<std::string> lines;
  for (const std::string& told :
       all_gather_bytes(stages, fmt::format("{}", fmt::join(own, "\n")))) {
    std::istringstream text(told);
    for (std::string line; std::getline(text, line);) lines.push_back(line);
  }
  return lines;
}

}  // namespace
}  // namespace checkpointing

using namespace checkpointing;

std::string LoadedWeights::text() const {
  std::string text = fmt::format("{} tensors loaded from {}", loaded.size(), path);
  const auto tell = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) text += fmt::format("; {}: {}", what, fmt::join(names, ", "));
  };
  tell("missing in the checkpoint", missing);
  tell("unknown to the model", unexpected);
  tell("of another shape or type", other_shape);
  return text;
}

LoadedWeights load_weights(torch::nn::Module& model, const std::string& directory,
                           const LoadWeightsOptions& options) {
  const std::vector<WeightTarget> targets = targets_of(model, &in_own_memory);
  WeightReader reader(directory, options);
  LoadedWeights report = reader.match(targets);
  reader.require_all(report);
  reader.read(targets);
  return report;
}

// Every rank knows that all of it fits before any tensor is written.
LoadedWeights load_weights(DataParallel& parallel, const std::string& directory,
                           const LoadWeightsOptions& options) {
  if (parallel.model() == nullptr) {
    throw_misuse(
        "load_weights(): this DataParallel was made of parameters alone, which have no "
        "model: load into a model before DataParallel is made of its parameters");
  }
  replica::Replicas& replicas = parallel.replicas();
  replicas.finish();
  const std::vector<replica::Parameter> masters = replicas.masters();
  std::vector<WeightTarget> targets;
  std::optional<WeightReader> reader;
  LoadedWeights report;
  together(replicas.group(), [&] {
    targets = targets_of(*parallel.model(), held_by({&parallel}, masters));
    reader.emplace(directory, options);
    report = reader->match(targets);
    reader->require_all(report);
  });
  together(replicas.group(), [&] { reader->read(targets); });
  take_over(parallel);
  return report;
}

LoadedWeights load_weights(Pipeline& pipeline, const std::string& directory,
                           const LoadWeightsOptions& options) {
  pipeline.finish();
  pipeline::MadeStages& stages = pipeline.made_stages();
  const std::vector<DataParallel*> parallels = stages.data_parallels();
  std::vector<replica::Parameter> masters;
  for (DataParallel* const each : parallels)
    std::ranges::move(each->replicas().masters(), std::back_inserter(masters));
  std::vector<WeightTarget> targets;
  std::optional<WeightReader> reader;
  together(stages.world(), [&] {
    for (const torch::nn::Module* const stage : pipeline.modules())
      std::ranges::move(targets_of(*stage, held_by(parallels, masters)),
                        std::back_inserter(targets));
    for (WeightTarget& target : targets) name_ties(target, stages.ties());
    reader.emplace(directory, options);
  });
  std::vector<std::string> names;
  for (const WeightTarget& target : targets)
    names.insert(names.end(), target.names.begin(), target.names.end());
  Communicator& group = stages.stage_group();
  names = of_all_stages(group, names);
  LoadedWeights report;
  together(stages.world(), [&] { report = reader->match(targets, names); });
  for (std::vector<std::string>* const list :
       {&report.loaded, &report.missing, &report.other_shape})
    *list = of_all_stages(group, *list);
  together(stages.world(), [&] { reader->require_all(report); });
  together(stages.world(), [&] { reader->read(targets); });
  for (DataParallel* const each : parallels) take_over(*each);
  return report;
}

}  // namespace paceline
