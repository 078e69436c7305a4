#include "paceline/torch/parallel/model_file.h"

#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/disk.h"
#include "paceline/core/collective/group/values.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::opened {
struct ArchivedModule {
  using Type = torch::jit::Module torch::serialize::OutputArchive::*;
  friend Type member(ArchivedModule);
};
template struct Member<ArchivedModule, &torch::serialize::OutputArchive::module_>;
}  // namespace paceline::opened

namespace paceline::parallel {
namespace {

namespace fs = std::filesystem;

// A view of memory that holds more than the tensor would be written with all of it.
at::Tensor without_neighbours(const at::Tensor& value) {
  return value.storage().nbytes() == value.nbytes() ? value : value.clone();
}

// The archive holds the model's own tensors: they make way for what they stand for.
void put_values(const torch::jit::Module& archived, const WholeState& state) {
  torch::jit::Module module = archived;
  for (const auto& [name, held] : module.named_attributes(/*recurse=*/false)) {
    if (!held.isTensor() || !held.toTensor().defined()) continue;
    const at::Tensor tensor = held.toTensor(), value = state.value_of(tensor);
    if (!value.defined()) continue;
    module.setattr(name,
                   without_neighbours(value).detach().set_requires_grad(tensor.requires_grad()));
  }
  for (const auto& child : module.children()) put_values(child, state);
}

void write_archive(torch::serialize::OutputArchive& archive, Disk::File& to) {
  std::optional<Failure> failure;
  const auto append = [&](const void* data, std::size_t bytes) -> std::size_t {
    if (failure) return 0;
    const auto done = to.append({static_cast<const std::byte*>(data), bytes});
    if (!done) failure = done.error();
    return failure ? 0 : bytes;
  };
  try {
    archive.save_to(append);
  } catch (const c10::Error&) {
    if (!failure) throw;
  }
  if (failure) throw Error(*failure);
  to.sync().value();
}

}  // namespace

WholeState::WholeState(replica::Replicas& replicas)
    : replicas_(replicas), held_(replicas.held_whole()) {
  const at::NoGradGuard no_grad;
  const replica::ModelParts& parts = replicas.parts();
  const bool has_masters = !replicas.masters().empty();
  const auto add = [&](const replica::Parameter& each) {
    at::Tensor value = each.tensor.detach();
    if (!parts.placements.is_whole(each.tensor))
      value = parts.placements.gathered(each.tensor, value);
    // Frozen parameters and buffers have no masters, and o2 turned them into 16 bits too.
    if (has_masters && value.is_floating_point() && value.element_size() == 2)
      value = value.to(at::kFloat);
    tensors_.push_back({each.name, each.leaf(), std::move(value)});
  };
  for (const replica::Parameter& each : parts.trained_and_frozen()) add(each);
  for (const replica::Parameter& each : parts.buffers) add(each);
}

at::Tensor WholeState::value_of(const at::Tensor& tensor) const {
  const auto found = std::ranges::find_if(
      tensors_, [&](const WholeTensor& one) { return one.tensor.is_same(tensor); });
  return found == tensors_.end() ? at::Tensor() : found->value;
}

bool WholeState::is_first_rank() const {
  const Communicator* const layers = replicas_.parts().placements.group();
  return replicas_.group().rank() == 0 && (layers == nullptr || layers->rank() == 0);
}

std::string WholeState::told_by_first_rank(std::string text) const {
  if (Communicator* const layers = replicas_.parts().placements.group())
    text = broadcast_bytes(*layers, text);
  return broadcast_bytes(replicas_.calls(), text);
}

void write_model_file(const torch::nn::Module& model, const WholeState& state,
                      const std::string& file) {
  const at::NoGradGuard no_grad;
  torch::serialize::OutputArchive archive(std::make_shared<torch::jit::CompilationUnit>());
  model.save(archive);
  put_values(archive.*member(opened::ArchivedModule{}), state);
  SystemDisk disk;
  const std::string saving = file + ".saving", folder = fs::path(file).parent_path();
  if (fs::exists(saving)) disk.remove(saving).value();  // a save that a crash has ended
  try {
    write_archive(archive, *disk.create(saving).value());
    disk.replace(saving, file).value();
  } catch (const std::exception&) {
    (void)disk.remove(saving);
    throw;
  }
  disk.sync_directory(folder.empty() ? "." : folder).value();
}

}  // namespace paceline::parallel
