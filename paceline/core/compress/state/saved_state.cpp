#include "paceline/core/compress/state/saved_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/json_reader.h"

namespace paceline::compress {
namespace {

using Json = JsonReader::Json;
using Sharing = StateView::Sharing;

constexpr std::uint32_t kStateMagic = 0x53435444;  // "DTCS"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kLongestText = 1000;
constexpr std::size_t kMostElements = std::size_t{1} << 40;

// The layout of the beginning. The description follows, in JSON, then the values, then a checksum
// of everything.
struct FileFields {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t description_bytes;  // a multiple of 8
};
static_assert(sizeof(FileFields) == 16);
static_assert(std::endian::native == std::endian::little, "the file is little-endian");

constexpr std::string_view kWhat = "the saved state of a compression";
constexpr std::string_view kFileRemedy =
    "take another checkpoint, or leave this item out (CheckpointOptions::ignore): then it begins "
    "with zeros";

Failure malformed_state(std::string what) {
  return {Fault::io, fmt::format("{} is malformed_state: {}; {}", kWhat, what, kFileRemedy), {}};
}

constexpr std::array<std::string_view, 3> kSharings = {"own", "chunk", "equal"};

std::string description_of(const SavedState& state) {
  Json values = Json::array();
  for (const SavedValues& one : state.values) {
    values.push_back({{"tensor", one.tensor},
                      {"begin", one.begin},
                      {"rows", one.rows},
                      {"columns", one.columns},
                      {"compression", one.compression},
                      {"sharing", kSharings[static_cast<std::size_t>(one.sharing)]},
                      {"name", one.name},
                      {"bytes", one.values.size()}});
  }
  std::string text = Json{{"rank", state.rank},
                          {"ranks", state.ranks},
                          {"step", state.step},
                          {"elements", state.elements},
                          {"values", std::move(values)}}
                         .dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// Reads a state from its description; `values` are the bytes behind it.
class Reader {
 public:
  explicit Reader(Bytes values) : rest_(values) {}

  Result<SavedState> read(std::string_view text) {
    const Json json = reader_.parse(text);
    if (reader_.has_keys(json, "", {"rank", "ranks", "step", "elements", "values"})) {
      read_whole(json);
      for_each(json, "elements",
               [this](const Json& one, const std::string& where) { read_elements(one, where); });
      for_each(json, "values",
               [this](const Json& one, const std::string& where) { read_values(one, where); });
    }
    if (!rest_.empty()) reader_.complain("what follows it", "the bytes of its values");
    if (reader_.failure()) return Failure{Fault::io, reader_.failure()->what, {}};
    return std::move(state_);
  }

 private:
  template <typename Read>
  void for_each(const Json& json, const char* key, const Read& read) {
    const Json& list = json[key];
    if (!list.is_array()) reader_.complain(key, "a list");
    for (std::size_t i = 0; i < list.size() && !reader_.failure(); ++i)
      read(list[i], fmt::format("{}[{}]", key, i));
  }

  void read_whole(const Json& json) {
    const auto ranks = reader_.whole(json, "", "ranks", 1, std::numeric_limits<int>::max());
    state_.ranks = static_cast<int>(ranks);
    state_.rank = static_cast<int>(reader_.whole(json, "", "rank", 0, ranks - 1));
    state_.step = static_cast<std::uint32_t>(
        reader_.whole(json, "", "step", 0, std::numeric_limits<std::uint32_t>::max()));
  }

  void read_elements(const Json& json, const std::string& where) {
    const bool is_right = json.is_number_unsigned() && json.get<std::uint64_t>() <= kMostElements;
    if (is_right) state_.elements.push_back(json.get<std::size_t>());
    else reader_.complain(where, fmt::format("a whole number from 0 to {}", kMostElements));
  }

  void read_values(const Json& json, const std::string& where) {
    if (!reader_.has_keys(
            json, where,
            {"tensor", "begin", "rows", "columns", "compression", "sharing", "name", "bytes"}))
      return;
    const std::size_t tensors = state_.elements.size();
    if (tensors == 0) return reader_.complain(where, "of a tensor, and there is none");
    SavedValues& one = state_.values.emplace_back();
    one.tensor = static_cast<std::uint32_t>(reader_.whole(json, where, "tensor", 0, tensors - 1));
    const std::size_t all = state_.elements[one.tensor];
    one.begin = reader_.whole(json, where, "begin", 0, all);
    one.rows = reader_.whole(json, where, "rows", 0, all);
    one.columns = reader_.whole(json, where, "columns", 0,
                                (all - one.begin) / std::max<std::size_t>(one.rows, 1));
    one.compression = reader_.text(json, where, "compression", 1, kLongestText);
    one.name = reader_.text(json, where, "name", 1, kLongestText);
    const auto sharing =
        std::ranges::find(kSharings, reader_.text(json, where, "sharing", 1, kLongestText));
    if (sharing != kSharings.end()) one.sharing = static_cast<Sharing>(sharing - kSharings.begin());
    else reader_.complain(where + ".sharing", fmt::format("{}", fmt::join(kSharings, " or ")));
    const std::size_t bytes = reader_.whole(json, where, "bytes", 0, rest_.size());
    if (bytes % sizeof(float) != 0) reader_.complain(where + ".bytes", "a multiple of 4");
    one.values = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
  }

  JsonReader reader_{std::string(kWhat), std::string(kFileRemedy)};
  Bytes rest_;
  SavedState state_;
};

}  // namespace

std::vector<std::byte> bytes_of(const SavedState& state) {
  const std::string description = description_of(state);
  std::size_t length = sizeof(FileFields) + description.size() + sizeof(std::uint32_t);
  for (const SavedValues& one : state.values) length += one.values.size();

  const FileFields fields{kStateMagic, kVersion, description.size()};
  std::vector<std::byte> bytes;
  bytes.reserve(length);
  const auto append = [&](Bytes more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
  append(std::as_bytes(std::span(&fields, 1)));
  append(std::as_bytes(std::span(description)));
  for (const SavedValues& one : state.values) append(one.values);
  const std::uint32_t checksum = crc32c(bytes);
  append(std::as_bytes(std::span(&checksum, 1)));
  return bytes;
}

Result<SavedState> saved_state_of(Bytes bytes) {
  FileFields fields;
  std::uint32_t checksum = 0;
  if (bytes.size() < sizeof fields + sizeof checksum)
    return malformed_state(fmt::format("{} bytes are too few", bytes.size()));
  std::memcpy(&fields, bytes.data(), sizeof fields);
  if (fields.magic != kStateMagic)
    return malformed_state(
        fmt::format("it begins with {:#010x} instead of {:#010x}", fields.magic, kStateMagic));
  if (fields.version != kVersion) {
    return malformed_state(fmt::format("it is of version {}, and this Paceline reads version {}",
                                       fields.version, kVersion));
  }
  const Bytes summed = bytes.first(bytes.size() - sizeof checksum);
  std::memcpy(&checksum, bytes.data() + summed.size(), sizeof checksum);
  if (checksum != crc32c(summed))
    return malformed_state(fmt::format("its checksum is {:#010x}, and its bytes have {:#010x}",
                                       checksum, crc32c(summed)));
  const Bytes behind = summed.subspan(sizeof fields);
  if (fields.description_bytes > behind.size()) {
    return malformed_state(fmt::format("it tells of {} bytes of description, and {} follow",
                                       fields.description_bytes, behind.size()));
  }
  const Bytes description = behind.first(fields.description_bytes);
  return Reader(behind.subspan(description.size()))
      .read({reinterpret_cast<const char*>(description.data()), description.size()});
}

}  // namespace paceline::compress
