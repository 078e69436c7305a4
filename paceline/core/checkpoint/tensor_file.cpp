#include "paceline/core/checkpoint/tensor_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "paceline/core/base/check.h"
#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/json_reader.h"

namespace paceline::checkpoint {
namespace {

using Json = JsonReader::Json;

static_assert(std::endian::native == std::endian::little, "files of tensors are little-endian");

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::size_t kAlignment = 8;

struct NamedDtype {
  std::string_view name;
  Dtype dtype;
};
constexpr std::array kDtypes = std::to_array<NamedDtype>({{"F64", Dtype::f64},
                                                          {"F32", Dtype::f32},
                                                          {"F16", Dtype::f16},
                                                          {"BF16", Dtype::bf16},
                                                          {"I64", Dtype::i64},
                                                          {"I32", Dtype::i32},
                                                          {"I16", Dtype::i16},
                                                          {"I8", Dtype::i8},
                                                          {"U8", Dtype::u8},
                                                          {"BOOL", Dtype::boolean}});

// Whole numbers only; nothing else has a place in a shape.
std::optional<Extents> extents_in(const Json& json, std::size_t most) {
  if (!json.is_array() || json.size() > most) return std::nullopt;
  Extents extents;
  for (const Json& one : json) {
    if (!one.is_number_unsigned()) return std::nullopt;
    extents.push_back(one.get<std::uint64_t>());
  }
  return extents;
}

Result<StoredTensor> read_tensor(const std::string& what, const std::string& name,
                                 const Json& json) {
  const auto wrong = [&](std::string_view found) {
    return damaged(what, fmt::format("tensor {}: {}", name, found));
  };
  const bool is_whole = json.is_object() && json.size() == 3 && json.contains("dtype") &&
                        json.contains("shape") && json.contains("data_offsets") &&
                        json["dtype"].is_string();
  if (!is_whole) return wrong("its entry is not {\"dtype\", \"shape\", \"data_offsets\"}");
  const auto type = json["dtype"].get<std::string>();
  const auto dtype = dtype_of_safetensors(type);
  if (!dtype) return wrong(fmt::format("this Paceline does not know its dtype {}", type));
  const auto shape = extents_in(json["shape"], kMostDimensions);
  const auto place = extents_in(json["data_offsets"], 2);
  if (!shape || !place || place->size() != 2) return wrong("its shape or its place is no list");
  StoredTensor tensor{name, *dtype, *shape, (*place)[0], (*place)[1]};
  const auto bytes = byte_length(tensor.shape, tensor.dtype);
  if (!bytes || tensor.end < tensor.begin || tensor.end - tensor.begin != *bytes)
    return wrong("its shape and its place differ in length");
  return tensor;
}

Result<> read_metadata(const std::string& what, const Json& json,
                       std::map<std::string, std::string>& metadata) {
  if (!json.is_object()) return damaged(what, "its __metadata__ is no JSON object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return damaged(what, "its __metadata__ holds more than texts");
    metadata[key] = value.get<std::string>();
  }
  return Done{};
}

Result<> check_places(const std::string& what, const std::vector<StoredTensor>& tensors,
                      std::uint64_t data_bytes) {
  std::vector<const StoredTensor*> by_place;
  by_place.reserve(tensors.size());
  for (const StoredTensor& tensor : tensors) by_place.push_back(&tensor);
  std::ranges::sort(by_place, [](const StoredTensor* one, const StoredTensor* other) {
    return std::pair(one->begin, one->end) < std::pair(other->begin, other->end);
  });
  std::uint64_t at = 0;
  for (const StoredTensor* tensor : by_place) {
    if (tensor->begin != at)
      return damaged(what, fmt::format("tensor {} begins at byte {} of the data instead of {}",
                                       tensor->name, tensor->begin, at));
    at = tensor->end;
  }
  if (at != data_bytes)
    return damaged(what, fmt::format("its tensors take {} bytes, and it has {}", at, data_bytes));
  return Done{};
}

// A piece is written as soon as its checksum is known, while it is still in the cache.
constexpr std::size_t kPiece = 1 << 20;

}  // namespace

std::string_view safetensors_name(Dtype dtype) {
  const auto found = std::ranges::find(kDtypes, dtype, &NamedDtype::dtype);
  return found == kDtypes.end() ? std::string_view() : found->name;
}

std::optional<Dtype> dtype_of_safetensors(std::string_view name) {
  const auto found = std::ranges::find(kDtypes, name, &NamedDtype::name);
  return found == kDtypes.end() ? std::nullopt : std::optional(found->dtype);
}

std::string encode_header(const std::vector<StoredTensor>& tensors,
                          const std::map<std::string, std::string>& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json[kMetadata] = metadata;
  for (const StoredTensor& tensor : tensors) {
    json[tensor.name] = {{"dtype", safetensors_name(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = json.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const std::uint64_t length = text.size();
  std::string header(kHeaderLengthBytes, '\0');
  std::memcpy(header.data(), &length, kHeaderLengthBytes);
  return header + text;
}

Result<std::uint64_t> header_length(const std::string& what, Bytes first,
                                    std::uint64_t file_length) {
  if (first.size() < kHeaderLengthBytes || file_length < kHeaderLengthBytes)
    return damaged(what, "it is too short for a file of tensors");
  std::uint64_t length = 0;
  std::memcpy(&length, first.data(), kHeaderLengthBytes);
  if (length > kLongestHeader || length > file_length - kHeaderLengthBytes)
    return damaged(what, fmt::format("it tells of a header of {} bytes, and has {} in all", length,
                                     file_length));
  return length;
}

Result<TensorFileHeader> parse_header(const std::string& what, std::string_view json,
                                      std::uint64_t file_length) {
  const std::uint64_t begin = kHeaderLengthBytes + json.size();
  if (file_length < begin) return damaged(what, "it ends within its header");
  const auto parsed = parse_strict_json(json);
  if (!parsed) return damaged(what, "its header: " + parsed.error().what);
  if (!parsed.value().is_object()) return damaged(what, "its header is no JSON object");
  TensorFileHeader header{.data_begin = begin};
  header.tensors.reserve(parsed.value().size());
  for (const auto& [name, entry] : parsed.value().items()) {
    if (name == kMetadata) {
      if (auto read = read_metadata(what, entry, header.metadata); !read) return read.error();
      continue;
    }
    auto tensor = read_tensor(what, name, entry);
    if (!tensor) return tensor.error();
    header.tensors.push_back(*std::move(tensor));
  }
  if (auto sound = check_places(what, header.tensors, file_length - begin); !sound)
    return sound.error();
  return header;
}

void BlockChecksums::add(Bytes bytes) {
  while (!bytes.empty()) {
    const std::size_t within = length_ % kChecksumBlock;
    if (within == 0) blocks_.push_back(0);
    const Bytes next = bytes.first(std::min(bytes.size(), kChecksumBlock - within));
    blocks_.back() = crc32c(next, blocks_.back());
    length_ += next.size();
    bytes = bytes.subspan(next.size());
  }
}

Result<StoredFile> write_tensor_file(Disk& disk, const std::string& directory,
                                     const std::string& name, std::span<const TensorBytes> tensors,
                                     const std::map<std::string, std::string>& metadata) {
  std::vector<StoredTensor> places;
  std::uint64_t at = 0;
  for (const TensorBytes& tensor : tensors) {
    PACELINE_CHECK(byte_length(tensor.shape, tensor.dtype) == tensor.bytes.size(),
                   "checkpoint: tensor {} has {} bytes, which its shape does not tell", tensor.key,
                   tensor.bytes.size());
    places.push_back({tensor.key, tensor.dtype, tensor.shape, at, at + tensor.bytes.size()});
    at += tensor.bytes.size();
  }
  const std::string header = encode_header(places, metadata);
  auto file = disk.create(directory + "/" + name);
  if (!file) return file.error();
  if (auto room = file.value()->reserve(header.size() + at); !room) return room.error();

  BlockChecksums checksums;
  const auto append = [&](Bytes bytes) -> Result<> {
    for (std::size_t done = 0; done < bytes.size(); done += kPiece) {
      const Bytes piece = bytes.subspan(done, std::min(kPiece, bytes.size() - done));
      checksums.add(piece);
      if (auto written = file.value()->append(piece); !written) return written;
    }
    return Done{};
  };
  if (auto written = append(std::as_bytes(std::span(header))); !written) return written.error();
  for (const TensorBytes& tensor : tensors)
    if (auto written = append(tensor.bytes); !written) return written.error();
  if (auto synced = file.value()->sync(); !synced) return synced.error();
  return StoredFile{name, checksums.length(), checksums.blocks()};
}

}  // namespace paceline::checkpoint
