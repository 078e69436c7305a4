#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "paceline/torch/checkpoint/checkpoint_part.h"
#include "paceline/torch/checkpoint/held_tensor.h"

namespace paceline::checkpointing {
namespace {

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
    parallel::SynchronyState own = replicas_.state();
    ItemState state{.values = std::move(own.values)};
    if (!own.own.empty())
      state.tensors.push_back({kCompression, tensor_of_bytes(own.own), Held::by_each});
    if (replicas_.weight().said)
      state.tensors.push_back(
          {kWeight, at::scalar_tensor(replicas_.weight().weight, at::kDouble), Held::by_each});
    for (const parallel::Parameter& master : replicas_.masters())
      std::ranges::move(held(master), std::back_inserter(state.tensors));
    return state;
  }

  void check(const SavedItem& saved) override {
    std::vector<std::string> names = {kCompression, kWeight};
    for (const parallel::Parameter& master : replicas_.masters()) {
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
    for (const parallel::Parameter& master : replicas_.masters())
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

  std::vector<ItemTensor> held(const parallel::Parameter& master) const {
    return held_tensor({&data_parallel_}, kMaster + master.name, master.tensor,
                       master.tensor.detach());
  }

  DataParallel& data_parallel_;
  parallel::Replicas& replicas_;
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
    for (DataParallel* const each : stages_.data_parallels()) {
      try {
        each->replicas().restore({.values = values, .ranks = saved.ranks(), .own = [](int) {
                                    return std::vector<std::byte>();
                                  }});
      } catch (const Error& error) {
        if (error.fault() != Fault::misuse) throw;
        refuse_item(saved, error.what());
      }
    }
    for (const ItemTensor& one : masters()) saved.read_into(one);
    stages_.go_on_from(saved.values().at("steps").get<std::int64_t>());
  }

 private:
  static JsonReader::Json own_state() { return {{"options", "the stages of a pipeline"}}; }

  std::vector<ItemTensor> masters() const {
    std::vector<ItemTensor> all;
    for (DataParallel* const each : stages_.data_parallels())
      for (const parallel::Parameter& master : each->replicas().masters())
        std::ranges::move(how_held_(kMaster + master.name, master.tensor, master.tensor.detach()),
                          std::back_inserter(all));
    return all;
  }

  pipeline::MadeStages& stages_;
  const HowHeld how_held_;
};

}  // namespace

PartPtr pipeline_part(pipeline::MadeStages& stages, HowHeld how_held) {
  return std::make_unique<PipelinePart>(stages, std::move(how_held));
}

PartPtr replicas_part(DataParallel& data_parallel) {
  return std::make_unique<ReplicasPart>(data_parallel);
}

}  // namespace paceline::checkpointing
