#include "paceline/torch/pipeline/whole_model.h"

#include <torch/torch.h>

#include <algorithm>
#include <sstream>
#include <tuple>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/sha256.h"
#include "paceline/core/collective/group/values.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/pipeline/cut_shapes.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::pipeline {
namespace {

std::string bytes_of(const std::vector<std::string>& names, const Tensors& tensors) {
  torch::serialize::OutputArchive archive;
  for (std::size_t i = 0; i < tensors.size(); ++i) archive.write(c10::str("tensor", i), tensors[i]);
  std::string all;
  for (const std::string& name : names) all += name + "\n";
  archive.write("names", c10::IValue(all));
  std::stringstream stream;
  archive.save_to(stream);
  return stream.str();
}

std::pair<std::vector<std::string>, Tensors> read_from(const std::string& bytes) {
  std::vector<std::string> names;
  Tensors tensors;
  torch::serialize::InputArchive archive;
  archive.load_from(bytes.data(), bytes.size());
  c10::IValue all;
  archive.read("names", all);
  std::istringstream lines(all.toStringRef());
  std::size_t i = 0;
  for (std::string name; std::getline(lines, name); ++i) {
    names.push_back(name);
    archive.read(c10::str("tensor", i), tensors.emplace_back());
  }
  return {std::move(names), std::move(tensors)};
}

// Null: this rank does not have the stage.
Chunk* chunk_of(int stage, std::vector<Chunk>& chunks) {
  const auto found = std::ranges::find(chunks, stage, &Chunk::stage);
  return found == chunks.end() ? nullptr : &*found;
}

// The parameters or buffers of a stage that this rank has.
void add_own(Chunk& chunk, bool wants_buffers, std::vector<std::string>& names, Tensors& tensors) {
  torch::OrderedDict<std::string, at::Tensor> state;
  if (chunk.parallel) state = chunk.parallel->state();
  else
    for (const auto& each : chunk.module->named_buffers())
      state.insert(each.key(), each.value().detach().clone());
  const auto buffers = chunk.module->named_buffers();
  for (const auto& each : state) {
    if (buffers.contains(each.key()) != wants_buffers) continue;
    names.push_back(each.key());
    tensors.push_back(each.value());
  }
}

Tensors whole_parameters_of(Chunk& chunk) {
  if (!chunk.parallel) return {};
  const replica::Replicas& replicas = chunk.parallel->replicas();
  const bool are_here = replicas.options().zero_stage == 0 && replicas.masters().empty() &&
                        replicas.parts().placements.group() == nullptr;
  if (are_here) return chunk.module->parameters();
  std::vector<std::string> names;
  Tensors tensors;
  add_own(chunk, /*wants_buffers=*/false, names, tensors);
  return tensors;
}

void add(Sha256& sum, const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  sum.add({static_cast<const std::byte*>(flat.const_data_ptr()), flat.nbytes()});
}

}  // namespace

torch::OrderedDict<std::string, at::Tensor> whole_state(const Placement& placement,
                                                        std::vector<Chunk>& chunks,
                                                        Communicator& group) {
  const at::NoGradGuard no_grad;
  torch::OrderedDict<std::string, at::Tensor> state;
  for (const bool wants_buffers : {false, true}) {
    for (int stage = 0; stage < placement.stages; ++stage) {
      const int owner = placement.first_rank_of(stage);
      std::vector<std::string> names;
      Tensors tensors;
      if (Chunk* const chunk = chunk_of(stage, chunks))  // replicas gather together
        add_own(*chunk, wants_buffers, names, tensors);
      if (group.size() > 1) {
        const bool is_owner = owner == group.rank();
        const std::string bytes =
            broadcast_bytes(group, is_owner ? bytes_of(names, tensors) : std::string(), owner);
        if (!is_owner) std::tie(names, tensors) = read_from(bytes);
      }
      for (std::size_t i = 0; i < names.size(); ++i) state.insert(names[i], tensors[i]);
    }
  }
  return state;
}

// Rank 0 adds them up, one after the other.
std::string whole_sha256(const Placement& placement, std::vector<Chunk>& chunks,
                         Communicator& group) {
  const at::NoGradGuard no_grad;
  Sha256 sum;
  for (int stage = 0; stage < placement.stages; ++stage) {
    const int owner = placement.first_rank_of(stage);
    Tensors own;
    if (Chunk* const chunk = chunk_of(stage, chunks)) own = whole_parameters_of(*chunk);
    if (owner != group.rank()) own.clear();
    std::vector<std::int64_t> count = {static_cast<std::int64_t>(own.size())};
    if (group.size() > 1) group.broadcast(buffer_of(count), owner).wait();
    for (std::size_t i = 0; i < static_cast<std::size_t>(count[0]); ++i) {
      if (owner == 0 && group.rank() == 0) add(sum, own[i]);
      else if (group.rank() == 0) add(sum, receive_with_shapes(group, owner).front());
      else if (owner == group.rank()) send_with_shapes(group, {own[i]}, 0);
    }
  }
  const std::string digest = sum.hex();
  return group.size() == 1 ? digest : broadcast_bytes(group, digest);
}

}  // namespace paceline::pipeline
