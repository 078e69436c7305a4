#include "paceline/torch/checkpointing/checkpoint_part.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/checkpointing/held_tensor.h"
#include "paceline/torch/checkpointing/own_share.h"

namespace paceline::checkpointing {
namespace {

class ModelPart final : public CheckpointPart {
 public:
  ModelPart(std::vector<const torch::nn::Module*> modules, HowHeld how_held,
            std::vector<std::string> elsewhere)
      : modules_(std::move(modules)),
        how_held_(std::move(how_held)),
        elsewhere_(std::move(elsewhere)) {}

  // No operator touches a parameter here: it may have no memory.
  void require_savable(const std::string& item) override {
    const auto require = [&](const auto& named) {
      for (const auto& entry : named)
        if (entry.value().defined())
          checkpointing::require_savable(item, {entry.key(), entry.value()});
    };
    for (const auto* module : modules_) {
      require(module->named_parameters());
      require(module->named_buffers());
    }
  }

  ItemState state() override {
    std::vector<std::pair<std::string, at::Tensor>> named;
    std::map<const c10::TensorImpl*, std::size_t> places;
    const auto add = [&](const std::string& name, const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      const auto [place, is_new] = places.emplace(tensor.unsafeGetTensorImpl(), named.size());
      if (is_new) named.emplace_back(name, tensor);
      std::string& kept = named[place->second].first;
      kept = std::min(kept, name);
    };
    for (const auto* module : modules_) {
      for (const auto& entry : module->named_parameters()) add(entry.key(), entry.value());
      for (const auto& entry : module->named_buffers()) add(entry.key(), entry.value());
    }
    ItemState state;
    for (const auto& [name, tensor] : named)
      std::ranges::move(how_held_(name, tensor, tensor), std::back_inserter(state.tensors));
    return state;
  }

  void check(const SavedItem& saved) override {
    std::vector<std::string> names = elsewhere_;
    for (const ItemTensor& one : state().tensors) {
      names.push_back(one.name);
      saved.require(one);
    }
    saved.require_no_other(names);
  }

  void load(const SavedItem& saved) override {
    for (const ItemTensor& one : state().tensors) saved.read_into(one);
  }

 private:
  const std::vector<const torch::nn::Module*> modules_;
  const HowHeld how_held_;
  const std::vector<std::string> elsewhere_;  // tensors of stages that other ranks have
};

constexpr const char* kCpuStream = "cpu";

// One of torch's streams of random numbers, and its name in a checkpoint.
struct RandomStream {
  std::string name;
  at::Generator generator;
  std::uint64_t number = 0;  // among those of this rank, of which the CPU's is the first
};

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

class RandomPart final : public CheckpointPart {
 public:
  explicit RandomPart(DeviceSource devices) : devices_(std::move(devices)) {}

  ItemState state() override {
    ItemState state;
    for (const RandomStream& stream : streams())
      state.tensors.push_back({stream.name, state_of(stream.generator), Held::by_each});
    return state;
  }

  // Streams of devices may be missing, or be there in vain: a run goes on with other devices.
  void check(const SavedItem& saved) override {
    const at::Tensor own = state_of(at::detail::getDefaultCPUGenerator());
    saved.require(kCpuStream, Held::by_each, own);
  }

  void load(const SavedItem& saved) override {
    for (const RandomStream& stream : streams()) restore(saved, stream);
  }

 private:
  // A rank may go on with another device of the kind, so they are told apart by their order.
  std::vector<RandomStream> streams() const {
    std::vector<RandomStream> all = {{kCpuStream, at::detail::getDefaultCPUGenerator()}};
    if (!devices_) return all;
    for (const at::Device& device : devices_()) {
      const std::size_t number = all.size();
      const std::string kind = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
      all.push_back({number == 1 ? kind : c10::str(kind, ".", number - 1),
                     at::globalContext().defaultGenerator(device), number});
    }
    return all;
  }

  // A rank that was not in the saved run, and a device that the rank did not have then, draw
  // numbers that nobody else draws.
  static void restore(const SavedItem& saved, RandomStream stream) {
    at::Generator& generator = stream.generator;
    const std::lock_guard lock(generator.mutex());
    at::Tensor state = generator.get_state();
    const auto* const found = saved.has_rank() ? saved.find(stream.name, Held::by_each) : nullptr;
    if (found == nullptr || !fits(*found, state)) {
      const std::uint64_t seed = mix(saved.step(), static_cast<std::uint64_t>(saved.rank()));
      generator.set_current_seed(stream.number == 0 ? seed : mix(seed, stream.number));
      return;
    }
    saved.read_into(*found, state);
    generator.set_state(state);
  }

  static bool fits(const checkpoint::LogicalTensor& saved, const at::Tensor& state) {
    return saved.dtype == dtype_of(state.scalar_type()) &&
           saved.shape == checkpoint::Extents(state.sizes().begin(), state.sizes().end());
  }

  const DeviceSource devices_;
};

constexpr const char *kCompression = "compression", *kWeight = "weight", *kMaster = "master.";

at::Tensor tensor_of_bytes(const std::vector<std::byte>& bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

class ReplicasPart final : public CheckpointPart {
 public:
  explicit ReplicasPart(DataParallel& data_parallel)
      : data_parallel_(data_parallel), replicas_(data_parallel.replicas()) {}

  ItemState state() override {
    replicas_.finish();
    replica::SynchronyState own = replicas_.state();
    ItemState state{.values = std::move(own.values)};
    if (!own.own.empty())
      state.tensors.push_back({kCompression, tensor_of_bytes(own.own), Held::by_each});
    if (replicas_.weight().said)
      state.tensors.push_back(
          {kWeight, at::scalar_tensor(replicas_.weight().weight, at::kDouble), Held::by_each});
    for (const replica::Parameter& master : replicas_.masters())
      std::ranges::move(held(master), std::back_inserter(state.tensors));
    return state;
  }

  void check(const SavedItem& saved) override {
    std::vector<std::string> names = {kCompression, kWeight};
    for (const replica::Parameter& master : replicas_.masters()) {
      for (const ItemTensor& one : held(master)) {
        names.push_back(one.name);
        saved.require(one);
      }
    }
    saved.require_no_other(names);
    if (saved.find(kWeight, Held::by_each) != nullptr)
      saved.require(kWeight, Held::by_each, at::scalar_tensor(0, at::kDouble));
  }

  void load(const SavedItem& saved) override {
    const int ranks = replicas_.group().size();
    replicas_.finish();
    restore(saved);
    for (const replica::Parameter& master : replicas_.masters())
      for (const ItemTensor& one : held(master)) saved.read_into(one);
    // On another number of ranks the weights of then mean nothing.
    const auto* const weight = saved.find(kWeight, Held::by_each);
    if (weight == nullptr || saved.ranks() != ranks) return;
    const at::Tensor value = at::scalar_tensor(0, at::kDouble);
    saved.read_into(*weight, value);
    data_parallel_.weight(value.item<double>());
  }

 private:
  // A refusal of the training names no checkpoint: this adds it.
  void restore(const SavedItem& saved) {
    try {
      replicas_.restore({.values = saved.values(), .ranks = saved.ranks(), .own = [&](int rank) {
                           return compression_of(saved, rank);
                         }});
    } catch (const Error& error) {
      if (error.fault() != Fault::misuse) throw;
      refuse_item(saved, error.what());
    }
  }

  static std::vector<std::byte> compression_of(const SavedItem& saved, int rank) {
    const auto* const found = saved.find_of(kCompression, rank);
    return found == nullptr ? std::vector<std::byte>() : saved.read_bytes(*found);
  }

  std::vector<ItemTensor> held(const replica::Parameter& master) const {
    return held_tensor({&data_parallel_}, kMaster + master.name, master.tensor,
                       master.tensor.detach());
  }

  DataParallel& data_parallel_;
  replica::Replicas& replicas_;
};

// It has the shape of a DataParallel's state, so that each can go on from the other.
class PipelinePart final : public CheckpointPart {
 public:
  PipelinePart(pipeline::MadeStages& stages, HowHeld how_held)
      : stages_(stages), how_held_(std::move(how_held)) {}

  void require_savable(const std::string& item) override {
    for (DataParallel* const each : stages_.data_parallels()) {
      const std::string& compression = each->replicas().options().compression;
      if (compression == "none") continue;
      throw_misuse(c10::str("item '", item, "': checkpoints do not hold what compression \"",
                            compression,
                            "\" keeps from step to step in the stages of a pipeline: train them "
                            "with \"none\""));
    }
  }

  ItemState state() override {
    ItemState state{.values = {{"given", "synchronous"},
                               {"synchrony", "synchronous"},
                               {"steps", stages_.steps()},
                               {"state", own_state()}}};
    for (DataParallel* const each : stages_.data_parallels()) {
      each->replicas().finish();
      const JsonReader::Json values = each->replicas().state().values;
      if (values.contains("numbers")) state.values["numbers"] = values.at("numbers");
    }
    if (const auto& scale = stages_.loss_scale()) state.values["numbers"] = scale->state();
    std::ranges::move(masters(), std::back_inserter(state.tensors));
    return state;
  }

  void check(const SavedItem& saved) override {
    for (const ItemTensor& one : masters()) saved.require(one);
    for (const std::string& name : saved.tensor_names()) {
      if (name != kCompression) continue;
      refuse_item(saved,
                  "it has what a compression keeps from step to step, which the stages of a "
                  "pipeline do not take over: leave it out by CheckpointOptions::ignore");
    }
  }

  void load(const SavedItem& saved) override {
    JsonReader::Json values = saved.values();
    values["state"] = own_state();  // what a whole model's messages were is of no use to a stage
    try {
      restore_scale(values);
      for (DataParallel* const each : stages_.data_parallels()) {
        each->replicas().restore({.values = values, .ranks = saved.ranks(), .own = [](int) {
                                    return std::vector<std::byte>();
                                  }});
      }
    } catch (const Error& error) {
      if (error.fault() != Fault::misuse) throw;
      refuse_item(saved, error.what());
    }
    for (const ItemTensor& one : masters()) saved.read_into(one);
    stages_.go_on_from(saved.values().at("steps").get<std::int64_t>());
  }

 private:
  static JsonReader::Json own_state() { return {{"options", "the stages of a pipeline"}}; }

  // The stages have one scale for all, and none of their own.
  void restore_scale(JsonReader::Json& values) {
    auto& scale = stages_.loss_scale();
    replica::require_same_scale(scale.has_value(), values, stages_.precision());
    if (!scale) return;
    scale->restore(values.at("numbers"));
    values["numbers"] = JsonReader::Json::object();
  }

  std::vector<ItemTensor> masters() const {
    std::vector<ItemTensor> all;
    for (DataParallel* const each : stages_.data_parallels())
      for (const replica::Parameter& master : each->replicas().masters()) {
        const std::string name = kMaster + stages_.ties().saved_name(master.name);
        std::ranges::move(how_held_(name, master.tensor, master.tensor.detach()),
                          std::back_inserter(all));
      }
    return all;
  }

  pipeline::MadeStages& stages_;
  const HowHeld how_held_;
};

}  // namespace

PartPtr model_part(const torch::nn::Module& model, HowHeld how_held) {
  return model_part({&model}, std::move(how_held), {});
}

PartPtr model_part(std::vector<const torch::nn::Module*> stages, HowHeld how_held,
                   std::vector<std::string> elsewhere) {
  return std::make_unique<ModelPart>(std::move(stages), std::move(how_held), std::move(elsewhere));
}

PartPtr random_part(DeviceSource devices) {
  return std::make_unique<RandomPart>(std::move(devices));
}

PartPtr pipeline_part(pipeline::MadeStages& stages, HowHeld how_held) {
  return std::make_unique<PipelinePart>(stages, std::move(how_held));
}

PartPtr replicas_part(DataParallel& data_parallel) {
  return std::make_unique<ReplicasPart>(data_parallel);
}

}  // namespace paceline::checkpointing
