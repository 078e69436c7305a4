#include "paceline/core/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "paceline/core/checkpoint/tensor_file.h"

namespace paceline::checkpoint {
namespace {

using Json = JsonReader::Json;

constexpr std::string_view kFormat = "paceline checkpoint";
constexpr std::size_t kLongestPlainName = 200, kLongestText = 4096;
constexpr std::size_t kChecksumDigits = 8;
constexpr std::uint64_t kMostRanksOfWorld = 1 << 20;
constexpr std::size_t kMostPieces = 1 << 19;  // of a tensor; 56 MiB of Piece
constexpr auto kMostBytes = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

// --- writing -------------------------------------------------------------------------------------

Json json_of(const LogicalTensor& tensor) {
  Json json = {
      {"name", tensor.name}, {"dtype", safetensors_name(tensor.dtype)}, {"shape", tensor.shape}};
  if (tensor.rank >= 0) json["rank"] = tensor.rank;
  json["pieces"] = Json::array();
  for (const StoredPiece& piece : tensor.pieces) {
    json["pieces"].push_back({{"file", piece.file},
                              {"key", piece.key},
                              {"offset", piece.box.offset},
                              {"shape", piece.box.shape}});
  }
  return json;
}

std::string checksums_text(const std::vector<std::uint32_t>& checksums) {
  std::string text;
  for (const std::uint32_t checksum : checksums) text += fmt::format("{:08x}", checksum);
  return text;
}

// --- reading -------------------------------------------------------------------------------------

// Reads a manifest as JsonReader does: the first complaint stands, and all values after it are
// harmless ones.
class ManifestReader {
 public:
  ManifestReader(const std::string& what, bool is_share)
      : reader_(what, "it is damaged: use another checkpoint"), is_share_(is_share) {}

  Manifest read(const Json& json) {
    Manifest manifest;
    if (!reader_.has_keys(
            json, "",
            {"format", "version", "step", "job", "generation", "world_size", "items", "files"}))
      return manifest;
    reader_.whole(json, "", "version", 1, kFormatVersion);
    manifest.step = reader_.whole(json, "", "step", 0, kMostBytes);
    manifest.job = reader_.text(json, "", "job", 0, kLongestText);
    manifest.generation = reader_.whole(json, "", "generation", 0, kMostBytes);
    manifest.world_size =
        static_cast<int>(reader_.whole(json, "", "world_size", 1, kMostRanksOfWorld));
    world_size_ = manifest.world_size;
    read_files(json, manifest.files);
    read_items(json, manifest.items);
    return manifest;
  }

  const std::optional<Failure>& failure() const { return reader_.failure(); }

 private:
  bool good() const { return !reader_.failure(); }

  const Json& list(const Json& json, std::string_view where, std::string_view key) {
    static const Json nothing = Json::array();
    const Json& found = json.at(std::string(key));
    if (found.is_array()) return found;
    reader_.complain(JsonReader::place(where, key), "a list");
    return nothing;
  }

  std::string plain_name(const Json& json, std::string_view where, std::string_view key) {
    std::string name = reader_.text(json, where, key, 1, kLongestPlainName);
    if (good() && !is_plain_name(name))
      reader_.complain(JsonReader::place(where, key), "letters, digits, '.', '_' and '-'");
    return name;
  }

  Extents extents(const Json& json, std::string_view where, std::string_view key) {
    Extents extents;
    const Json& all = list(json, where, key);
    bool sound = all.size() <= kMostDimensions;
    for (const Json& one : all) {
      sound = sound && one.is_number_unsigned();
      if (sound) extents.push_back(one.get<std::uint64_t>());
    }
    if (!sound) reader_.complain(JsonReader::place(where, key), "a list of whole numbers");
    return extents;
  }

  void read_files(const Json& json, std::vector<StoredFile>& files) {
    const Json& all = list(json, "", "files");
    files.reserve(all.size());
    for (const Json& one : all) {
      const std::string where = fmt::format("files[{}]", files.size());
      if (!reader_.has_keys(one, where, {"name", "length", "crc32c"})) return;
      StoredFile file{.name = plain_name(one, where, "name"),
                      .length = reader_.whole(one, where, "length", 0, kMostBytes)};
      read_checksums(one, where, file);
      if (!good()) return;
      if (!unclaimed_.emplace(file.name, file.length).second)
        return reader_.complain(where + ".name", "the name of one file");
      files.push_back(std::move(file));
    }
  }

  void read_checksums(const Json& one, const std::string& where, StoredFile& file) {
    const std::uint64_t blocks = file.length / kChecksumBlock + (file.length % kChecksumBlock != 0);
    const std::string text =
        reader_.text(one, where, "crc32c", 0, std::numeric_limits<std::size_t>::max());
    bool sound = text.size() / kChecksumDigits == blocks && text.size() % kChecksumDigits == 0;
    if (sound) file.checksums.reserve(blocks);
    for (std::size_t at = 0; sound && at < text.size(); at += kChecksumDigits) {
      const char *begin = text.data() + at, *end = begin + kChecksumDigits;
      std::uint32_t checksum = 0;
      sound = std::from_chars(begin, end, checksum, 16).ptr == end;
      file.checksums.push_back(checksum);
    }
    if (!sound)
      reader_.complain(where + ".crc32c", fmt::format("8 digits for each of {} MiB", blocks));
  }

  void read_items(const Json& json, std::vector<Item>& items) {
    std::set<std::string> names;
    for (const Json& one : list(json, "", "items")) {
      const std::string where = fmt::format("items[{}]", items.size());
      if (!reader_.has_keys(one, where, {"name", "values", "tensors"})) return;
      Item item{.name = plain_name(one, where, "name"), .values = one["values"]};
      if (good() && !names.insert(item.name).second)
        reader_.complain(where + ".name", "the name of one item");
      if (!item.values.is_object()) reader_.complain(where + ".values", "a JSON object");
      std::set<std::pair<std::string, int>> tensors;
      const Json& all = list(one, where, "tensors");
      item.tensors.reserve(all.size());
      for (const Json& tensor : all) {
        const std::string place = fmt::format("{}.tensors[{}]", where, item.tensors.size());
        item.tensors.push_back(read_tensor(tensor, place));
        const LogicalTensor& read = item.tensors.back();
        if (good() && !tensors.insert({read.name, read.rank}).second)
          reader_.complain(place + ".name", "the name of one tensor");
        if (!good()) return;
      }
      if (!good()) return;
      items.push_back(std::move(item));
    }
  }

  LogicalTensor read_tensor(const Json& json, const std::string& where) {
    LogicalTensor tensor;
    if (!reader_.has_keys(json, where, {"name", "dtype", "shape", "pieces"}, {"rank"}))
      return tensor;
    tensor.name = reader_.text(json, where, "name", 1, kLongestText);
    const std::string dtype = reader_.text(json, where, "dtype", 1, kLongestPlainName);
    tensor.dtype = dtype_of_safetensors(dtype).value_or(Dtype::u8);
    if (!dtype_of_safetensors(dtype)) reader_.complain(where + ".dtype", "a dtype that is known");
    tensor.shape = extents(json, where, "shape");
    if (json.contains("rank")) {
      const auto last = static_cast<std::uint64_t>(world_size_ - 1);
      tensor.rank = static_cast<int>(reader_.whole(json, where, "rank", 0, last));
    }
    const Json& pieces = list(json, where, "pieces");
    if (pieces.size() > kMostPieces)
      reader_.complain(where + ".pieces", fmt::format("at most {} boxes", kMostPieces));
    if (!good()) return tensor;
    std::vector<Box> boxes;
    boxes.reserve(pieces.size());
    tensor.pieces.reserve(pieces.size());
    for (const Json& one : pieces) {
      const std::string place = fmt::format("{}.pieces[{}]", where, tensor.pieces.size());
      if (!reader_.has_keys(one, place, {"file", "key", "offset", "shape"})) return tensor;
      StoredPiece piece{.file = plain_name(one, place, "file"),
                        .key = reader_.text(one, place, "key", 1, kLongestText),
                        .box = {extents(one, place, "offset"), extents(one, place, "shape")}};
      if (good() && !unclaimed_.contains(piece.file))
        reader_.complain(place + ".file", "one of the files");
      if (good() && !keys_.emplace(piece.file, piece.key).second)
        reader_.complain(place + ".key", "that of a tensor in the file that no other piece has");
      boxes.push_back(piece.box);
      tensor.pieces.push_back(std::move(piece));
    }
    if (good() && !byte_length(tensor.shape, tensor.dtype))
      reader_.complain(where + ".shape", "that of a tensor of less than 2^63 bytes");
    if (good() && !(is_share_ ? fit(tensor.shape, boxes) : tile(tensor.shape, boxes)))
      reader_.complain(where + ".pieces", "boxes that make up the tensor without gap or overlap");
    if (good()) claim(tensor, where);
    return tensor;
  }

  // The pieces of a file are no longer than the file: nobody makes room for a tensor that is not
  // there. REQUIRES: the pieces tile the tensor.
  void claim(const LogicalTensor& tensor, const std::string& where) {
    for (const StoredPiece& piece : tensor.pieces) {
      std::uint64_t& left = unclaimed_.at(piece.file);
      const std::uint64_t bytes = byte_length(piece.box.shape, tensor.dtype).value();
      if (bytes > left)
        return reader_.complain(where + ".pieces", "boxes of no more bytes than their files have");
      left -= bytes;
    }
  }

  JsonReader reader_;
  const bool is_share_;
  int world_size_ = 1;
  std::map<std::string, std::uint64_t> unclaimed_;      // bytes of each file that no piece has yet
  std::set<std::pair<std::string, std::string>> keys_;  // file and key of each piece
};

}  // namespace

bool is_plain_name(std::string_view name) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= kLongestPlainName && name.front() != '.' &&
         name.find_first_not_of(kPlain) == std::string_view::npos;
}

std::string to_json(const Manifest& manifest) {
  Json json = {{"format", kFormat},
               {"version", kFormatVersion},
               {"step", manifest.step},
               {"job", manifest.job},
               {"generation", manifest.generation},
               {"world_size", manifest.world_size},
               {"items", Json::array()},
               {"files", Json::array()}};
  for (const Item& item : manifest.items) {
    Json tensors = Json::array();
    for (const LogicalTensor& tensor : item.tensors) tensors.push_back(json_of(tensor));
    json["items"].push_back(
        {{"name", item.name}, {"values", item.values}, {"tensors", std::move(tensors)}});
  }
  for (const StoredFile& file : manifest.files) {
    json["files"].push_back(
        {{"name", file.name}, {"length", file.length}, {"crc32c", checksums_text(file.checksums)}});
  }
  return json.dump(1) + "\n";
}

namespace {

Result<Manifest> parse(const std::string& what, std::string_view text, bool is_share) {
  const auto json = parse_strict_json(text);
  if (!json) return damaged(what, json.error().what);
  const Json& root = json.value();
  if (!root.is_object() || root.value("format", Json()) != Json(kFormat))
    return Failure{Fault::io, what + " is no manifest of a Paceline checkpoint", {}};
  const Json version = root.value("version", Json());
  if (version.is_number_unsigned() && version.get<std::uint64_t>() > kFormatVersion) {
    return Failure{
        Fault::misuse,
        fmt::format(
            "{} is of version {}, and this Paceline reads up to version {}; use a newer Paceline",
            what, version.get<std::uint64_t>(), kFormatVersion),
        {}};
  }
  ManifestReader reader(what, is_share);
  Manifest manifest = reader.read(root);
  if (reader.failure()) return Failure{Fault::io, reader.failure()->what, {}};
  return manifest;
}

// Pieces of tensors that another share has too join that one's.
void join(std::vector<LogicalTensor>& all, std::vector<LogicalTensor> more) {
  std::map<std::pair<std::string, int>, std::size_t> places;
  for (std::size_t i = 0; i < all.size(); ++i) places[{all[i].name, all[i].rank}] = i;
  for (LogicalTensor& tensor : more) {
    const auto [place, is_new] = places.emplace(std::pair{tensor.name, tensor.rank}, all.size());
    if (is_new) all.push_back(std::move(tensor));
    else std::ranges::move(tensor.pieces, std::back_inserter(all[place->second].pieces));
  }
}

}  // namespace

Result<Manifest> parse_manifest(const std::string& what, std::string_view text) {
  return parse(what, text, /*is_share=*/false);
}

Result<Manifest> parse_share(const std::string& what, std::string_view text) {
  return parse(what, text, /*is_share=*/true);
}

Result<Manifest> merged(std::vector<Manifest> shares) {
  Manifest all = std::move(shares.front());
  for (std::size_t r = 1; r < shares.size(); ++r) {
    for (std::size_t i = 0; i < all.items.size(); ++i)
      join(all.items[i].tensors, std::move(shares[r].items.at(i).tensors));
    std::ranges::move(shares[r].files, std::back_inserter(all.files));
  }
  for (const Item& item : all.items) {
    for (const LogicalTensor& tensor : item.tensors) {
      std::vector<Box> boxes;
      for (const StoredPiece& piece : tensor.pieces) boxes.push_back(piece.box);
      if (!tile(tensor.shape, boxes))
        return Failure{Fault::io,
                       fmt::format("the parts of tensor '{}' of item '{}' that the ranks have "
                                   "written do not make up the whole",
                                   tensor.name, item.name),
                       {}};
    }
  }
  return all;
}

}  // namespace paceline::checkpoint
