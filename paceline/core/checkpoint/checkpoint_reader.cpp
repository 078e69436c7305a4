#include "paceline/core/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "paceline/core/checkpoint/damaged.h"
#include "paceline/core/checkpoint/verify_checkpoint.h"

namespace paceline::checkpoint {
namespace {

// Copies a contiguous box to its place in the contiguous whole. REQUIRES: it lies inside.
void place(const Extents& shape, const Box& box, std::size_t element, Bytes from, MutableBytes to) {
  // The last sides that the box has whole lie together in both.
  std::size_t outer = shape.size();
  std::uint64_t run = element;
  while (outer > 0 && (outer == shape.size() || box.shape[outer] == shape[outer]))
    run *= box.shape[--outer];
  if (from.empty()) return;
  Extents index(outer, 0);
  for (std::size_t done = 0; done < from.size(); done += run) {
    std::uint64_t at = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      at = at * shape[d] + box.offset[d] + (d < outer ? index[d] : 0);
    std::memcpy(to.data() + at * element, from.data() + done, run);
    for (std::size_t d = outer; d > 0 && ++index[d - 1] == box.shape[d - 1]; --d) index[d - 1] = 0;
  }
}

}  // namespace

Result<CheckpointReader::OpenFile*> CheckpointReader::file(const std::string& name) {
  const auto known = files_.find(name);
  if (known != files_.end()) return &known->second;
  const std::string path = directory_ + "/" + name;
  auto source = disk_.open(path);
  if (!source) return source.error();
  auto header = read_header(*source.value(), path);
  if (!header) return header.error();
  OpenFile opened{.source = *std::move(source), .header = *std::move(header), .tensors = {}};
  for (std::size_t i = 0; i < opened.header.tensors.size(); ++i)
    opened.tensors[opened.header.tensors[i].name] = i;
  return &files_.emplace(name, std::move(opened)).first->second;
}

Result<CheckpointReader::Place> CheckpointReader::place_of(const LogicalTensor& tensor,
                                                           const Piece& piece) {
  const auto opened = file(piece.file);
  if (!opened) return opened.error();
  const auto found = opened.value()->tensors.find(piece.key);
  if (found == opened.value()->tensors.end())
    return damaged(directory_ + "/" + piece.file, "it holds no tensor " + piece.key);
  const StoredTensor& stored = opened.value()->header.tensors[found->second];
  if (stored.dtype != tensor.dtype || stored.shape != piece.box.shape)
    return damaged(directory_ + "/" + piece.file,
                   "its tensor " + piece.key + " is of another type or shape than told");
  return Place{.source = opened.value()->source.get(),
               .begin = opened.value()->header.data_begin + stored.begin,
               .bytes = stored.end - stored.begin};
}

Result<> CheckpointReader::read(const LogicalTensor& tensor, MutableBytes into) {
  std::vector<std::byte> part;
  for (const Piece& piece : tensor.pieces) {
    const auto found = place_of(tensor, piece);
    if (!found) return found.error();
    const Place& at = found.value();
    if (piece.box.shape == tensor.shape) return at.source->read(at.begin, into);
    part.resize(at.bytes);
    if (auto done = at.source->read(at.begin, part); !done) return done;
    place(tensor.shape, piece.box, size_of(tensor.dtype), part, into);
  }
  return Done{};
}

Result<std::vector<std::byte>> CheckpointReader::read(const LogicalTensor& tensor) {
  for (const Piece& piece : tensor.pieces)
    if (auto found = place_of(tensor, piece); !found) return found.error();
  std::vector<std::byte> bytes(byte_length(tensor.shape, tensor.dtype).value());
  if (auto done = read(tensor, bytes); !done) return done.error();
  return bytes;
}

}  // namespace paceline::checkpoint
