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

}  // namespace

MakesPart replicas_part(DataParallel& data_parallel) {
  return std::make_unique<ReplicasPart>(data_parallel);
}

}  // namespace paceline::checkpointing
