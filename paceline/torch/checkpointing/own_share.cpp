#include "paceline/torch/checkpointing/own_share.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <chrono>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::checkpointing {
namespace {

using checkpoint::StoredFile;

constexpr std::size_t kCopyAlignment = 64;
// Python's library marks files of torch so.
const std::map<std::string, std::string> kMetadata = {{"format", "pt"}};

std::size_t room_for(const at::Tensor& tensor) {
  return (tensor.nbytes() + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
}

using checkpoint::Item;
using checkpoint::Manifest;

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

// `common`: the number of tensors before it that all ranks have alike.
bool is_written_here(const ItemTensor& one, int rank, const std::vector<int>& writers,
                     std::size_t& common) {
  switch (one.held) {
    case Held::by_all: return writers[common++] == rank;
    case Held::by_each: return true;
    case Held::by_first: return rank == 0;
    case Held::in_parts: return one.part.is_saved_here && one.tensor.numel() > 0;
  }
  return false;
}

// A tensor in one piece has its own name, so that readers of the file alone find it.
std::string key_of(const ItemTensor& one, int rank) {
  if (one.held == Held::by_each) return fmt::format("{}@{}", one.name, rank);
  if (one.held == Held::in_parts)
    return fmt::format("{}@{}", one.name, fmt::join(one.part.offset, ","));
  return one.name;
}

checkpoint::Box box_of(const ItemTensor& one) {
  const checkpoint::Extents shape(one.tensor.sizes().begin(), one.tensor.sizes().end());
  return {one.held == Held::in_parts ? one.part.offset : checkpoint::Extents(shape.size(), 0),
          shape};
}

}  // namespace

std::vector<ShareWriter::File> ShareWriter::copied(const std::vector<ShareTensor>& share) {
  std::size_t bytes = 0;
  for (const ShareTensor& one : share) bytes += room_for(one.tensor);
  if (!memory_.defined() || memory_.nbytes() < bytes)
    memory_ = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
  auto* place = static_cast<std::byte*>(memory_.mutable_data_ptr());
  std::vector<File> files;
  const at::NoGradGuard no_grad;
  for (const ShareTensor& one : share) {
    at::from_blob(place, one.tensor.sizes(), one.tensor.scalar_type()).copy_(one.tensor);
    if (files.empty() || files.back().name != one.file) files.push_back({one.file, {}});
    files.back().tensors.push_back({.key = one.key,
                                    .dtype = dtype_of(one.tensor.scalar_type()).value(),
                                    .shape = {one.tensor.sizes().begin(), one.tensor.sizes().end()},
                                    .bytes = {place, one.tensor.nbytes()}});
    place += room_for(one.tensor);
  }
  return files;
}

void ShareWriter::start(const std::string& directory, const std::vector<ShareTensor>& share) {
  result_ = std::async(std::launch::async, [this, directory, files = copied(share)] {
    return write(directory, files);
  });
}

Result<std::vector<StoredFile>> ShareWriter::write(const std::string& directory,
                                                   const std::vector<File>& files) const {
  std::vector<StoredFile> written;
  std::uint64_t bytes = 0;
  for (const File& file : files)
    for (const auto& tensor : file.tensors) bytes += tensor.bytes.size();
  for (const File& file : files) {
    auto stored =
        checkpoint::write_tensor_file(disk_, directory, file.name, file.tensors, kMetadata);
    if (!stored) {
      Failure failure = stored.error();
      if (const auto free = disk_.free_bytes(directory))
        failure.what += c10::str(" (this rank's share is ", bytes, " bytes, and ", free.value(),
                                 " are free there)");
      return failure;
    }
    written.push_back(*std::move(stored));
  }
  return written;
}

bool ShareWriter::is_done() const {
  return result_.valid() && result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Result<std::vector<StoredFile>> ShareWriter::result() {
  return result_.get();
}

void require_savable(const std::string& item, const ItemTensor& one) {
  if (one.tensor.layout() == at::kStrided && dtype_of(one.tensor.scalar_type())) return;
  throw_misuse(fmt::format(
      "a checkpoint cannot hold tensor '{}' of item '{}', {}: convert it to dense elements of a "
      "type that Paceline carries (complex: at::view_as_real), or leave it out",
      one.name, item, describe(one.tensor)));
}

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
      if (!is_written_here(one, rank, writers, common)) continue;
      const bool is_own = one.held == Held::by_each;
      const std::string file = file_of(named.item, rank, ranks);
      const checkpoint::StoredPiece piece{file, key_of(one, rank), box_of(one)};
      share.tensors.push_back({file, piece.key, one.tensor});
      if (one.held == Held::in_parts && !item.tensors.empty() &&
          item.tensors.back().name == one.name) {  // another box of it
        item.tensors.back().pieces.push_back(piece);
        continue;
      }
      item.tensors.push_back(
          {.name = one.name,
           .dtype = dtype_of(one.tensor.scalar_type()).value(),
           .shape = one.held == Held::in_parts ? one.part.whole : piece.box.shape,
           .rank = is_own ? rank : -1,
           .pieces = {piece}});
    }
    manifest.items.push_back(std::move(item));
  }
  share.manifest = std::move(manifest);
  return share;
}

}  // namespace paceline::checkpointing
