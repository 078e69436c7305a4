#include "paceline/torch/checkpoint/own_share.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::checkpointing {
namespace {

using checkpoint::Item;
using checkpoint::LogicalTensor;
using checkpoint::Manifest;

void require_savable(const std::string& item, const ItemTensor& one) {
  if (one.tensor.layout() == at::kStrided && dtype_of(one.tensor.scalar_type())) return;
  throw_misuse(fmt::format(
      "a checkpoint cannot hold tensor '{}' of item '{}', {}: convert it to dense elements of a "
      "type that Paceline carries (complex: at::view_as_real), or leave it out",
      one.name, item, describe(one.tensor)));
}

// JSON holds texts in UTF-8 alone.
void require_savable(const std::string& item, const JsonReader::Json& values) {
  try {
    (void)values.dump();
  } catch (const JsonReader::Json::exception& error) {
    throw_misuse(fmt::format(
        "a checkpoint cannot hold the values of item '{}': {}. Texts must be UTF-8: save other "
        "bytes as a tensor (at::kByte)",
        item, error.what()));
  }
}

std::string file_of(const std::string& item, int rank, int ranks) {
  return fmt::format("{}-{:05}-of-{:05}.safetensors", item, rank + 1, ranks);
}

// The ranks that write the common tensors, in their order.
std::vector<int> dealt(const std::vector<NamedState>& states, int ranks) {
  std::vector<std::uint64_t> bytes;
  for (const ItemTensor& one : common_tensors(states)) bytes.push_back(one.tensor.nbytes());
  return checkpoint::deal(bytes, ranks);
}

}  // namespace

std::vector<ItemTensor> common_tensors(const std::vector<NamedState>& states) {
  std::vector<ItemTensor> all;
  for (const NamedState& named : states)
    for (const ItemTensor& one : named.state.tensors)
      if (one.held == Held::by_all)
        all.push_back({named.item + "/" + one.name, one.tensor, one.held});
  return all;
}

OwnShare own_share(const std::vector<NamedState>& states, Manifest manifest, int rank) {
  const int ranks = manifest.world_size;
  const std::vector<int> writers = dealt(states, ranks);
  OwnShare share;
  std::size_t common = 0;
  for (const NamedState& named : states) {
    require_savable(named.item, named.state.values);
    Item item{.name = named.item, .values = named.state.values};
    for (const ItemTensor& one : named.state.tensors) {
      require_savable(named.item, one);
      const int writer = one.held == Held::by_all    ? writers[common++]
                         : one.held == Held::by_each ? rank
                                                     : 0;
      if (writer != rank) continue;
      const bool is_own = one.held == Held::by_each;
      const std::string file = file_of(named.item, rank, ranks);
      const std::string key = is_own ? fmt::format("{}@{}", one.name, rank) : one.name;
      const checkpoint::Extents shape(one.tensor.sizes().begin(), one.tensor.sizes().end());
      share.tensors.push_back({file, key, one.tensor});
      item.tensors.push_back(
          {.name = one.name,
           .dtype = dtype_of(one.tensor.scalar_type()).value(),
           .shape = shape,
           .rank = is_own ? rank : -1,
           .pieces = {{file, key, {checkpoint::Extents(shape.size(), 0), shape}}}});
    }
    manifest.items.push_back(std::move(item));
  }
  share.manifest = std::move(manifest);
  return share;
}

Manifest merged(std::vector<Manifest> shares) {
  Manifest all = std::move(shares.front());
  for (std::size_t r = 1; r < shares.size(); ++r) {
    for (std::size_t i = 0; i < all.items.size(); ++i) {
      auto& tensors = shares[r].items.at(i).tensors;
      std::move(tensors.begin(), tensors.end(), std::back_inserter(all.items[i].tensors));
    }
    std::move(shares[r].files.begin(), shares[r].files.end(), std::back_inserter(all.files));
  }
  return all;
}

}  // namespace paceline::checkpointing
