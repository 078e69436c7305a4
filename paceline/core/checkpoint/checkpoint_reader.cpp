#include "paceline/core/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "paceline/core/checkpoint/tensor_file.h"
#include "paceline/core/checkpoint/verify_checkpoint.h"

namespace paceline::checkpoint {
namespace {

// The part of a file that is read at a time, where it is not read right into its place.
constexpr std::uint64_t kMostAtATime = 4 << 20;

// Copies the elements of `common` from one contiguous box to another. REQUIRES: it lies in both.
void copy(const Box& common, const Box& from_box, Bytes from, const Box& to_box, MutableBytes to,
          std::size_t element) {
  // The last sides that both boxes share lie together in both.
  std::size_t outer = common.shape.size();
  std::uint64_t run = element;
  const auto is_whole = [&](std::size_t d) {
    return common.shape[d] == from_box.shape[d] && common.shape[d] == to_box.shape[d];
  };
  while (outer > 0 && (outer == common.shape.size() || is_whole(outer)))
    run *= common.shape[--outer];
  const auto place = [&](const Box& box, const Extents& index) {
    std::uint64_t at = 0;
    for (std::size_t d = 0; d < common.shape.size(); ++d)
      at = at * box.shape[d] + common.offset[d] - box.offset[d] + (d < outer ? index[d] : 0);
    return at * element;
  };
  Extents index(outer, 0);
  std::uint64_t runs = 1;
  for (std::size_t d = 0; d < outer; ++d) runs *= common.shape[d];
  for (std::uint64_t done = 0; done < runs; ++done) {
    std::memcpy(to.data() + place(to_box, index), from.data() + place(from_box, index), run);
    for (std::size_t d = outer; d > 0 && ++index[d - 1] == common.shape[d - 1]; --d)
      index[d - 1] = 0;
  }
}

// These rows (of the first side) of a box.
Box rows_of(Box box, std::uint64_t first, std::uint64_t count) {
  box.offset[0] += first;
  box.shape[0] = count;
  return box;
}

// Whether the box holds whole rows of the other, so that they lie together there.
bool has_whole_rows(const Box& box, const Box& of) {
  for (std::size_t d = 1; d < box.shape.size(); ++d)
    if (box.shape[d] != of.shape[d]) return false;
  return true;
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
                                                           const StoredPiece& piece) {
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
  return read(tensor, {Extents(tensor.shape.size(), 0), tensor.shape}, into);
}

Result<> CheckpointReader::read(const LogicalTensor& tensor, const Box& box, MutableBytes into) {
  for (const StoredPiece& piece : tensor.pieces) {
    const auto found = place_of(tensor, piece);
    if (!found) return found.error();
    const auto common = common_box(piece.box, box);
    if (!common) continue;
    if (auto done = read(found.value(), piece.box, *common, box, into); !done) return done;
  }
  return Done{};
}

// Rows of the piece are read as far as they are needed.
Result<> CheckpointReader::read(const Place& at, const Box& piece, const Box& common,
                                const Box& box, MutableBytes into) {
  if (piece == box) return at.source->read(at.begin, into);
  const std::size_t element = into.size() / *elements_of(box.shape);
  const std::uint64_t row = at.bytes / piece.shape[0], into_row = into.size() / box.shape[0];
  const std::uint64_t first = common.offset[0] - piece.offset[0], rows = common.shape[0];
  if (has_whole_rows(common, piece) && has_whole_rows(common, box)) {
    const std::uint64_t to = (common.offset[0] - box.offset[0]) * into_row;
    return at.source->read(at.begin + first * row, into.subspan(to, rows * row));
  }
  const std::uint64_t each = std::clamp<std::uint64_t>(kMostAtATime / row, 1, rows);
  std::vector<std::byte> some(each * row);
  for (std::uint64_t done = 0; done < rows; done += each) {
    const std::uint64_t now = std::min(each, rows - done);
    const auto bytes = std::span(some).first(now * row);
    if (auto read = at.source->read(at.begin + (first + done) * row, bytes); !read) return read;
    copy(rows_of(common, done, now), rows_of(piece, first + done, now), bytes, box, into, element);
  }
  return Done{};
}

Result<std::vector<std::byte>> CheckpointReader::read(const LogicalTensor& tensor) {
  for (const StoredPiece& piece : tensor.pieces)
    if (auto found = place_of(tensor, piece); !found) return found.error();
  std::vector<std::byte> bytes(byte_length(tensor.shape, tensor.dtype).value());
  if (auto done = read(tensor, bytes); !done) return done.error();
  return bytes;
}

}  // namespace paceline::checkpoint
