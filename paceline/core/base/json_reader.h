// Reads JSON that people may have written, and reports the first error: its place, the expected
// value and the remedy.
//
//   JsonReader reader("model m.json", "record it again");
//   const JsonReader::Json json = reader.parse(text);
//   if (reader.has_keys(json, "", {"bytes"})) bytes = reader.whole(json, "", "bytes", 1, 100);
//   if (reader.failure()) ...  // "model m.json: bytes must be a whole number from 1 to 100"
//
// `where` is the place of a value, for example "tensors[2]"; "" is the whole document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "paceline/core/base/result.h"

namespace paceline {

class JsonReader {
 public:
  using Json = nlohmann::ordered_json;
  using Keys = std::vector<std::string_view>;

  JsonReader(std::string what, std::string remedy)
      : what_(std::move(what)), remedy_(std::move(remedy)) {}

  Json parse(std::string_view text);

  // Tells whether `json` is an object with all keys of `must` and no others than those and `may`.
  // Returns false also after an earlier complaint.
  bool has_keys(const Json& json, std::string_view where, const Keys& must, const Keys& may = {});

  // The value of an existing key; after a complaint, some value within the bounds.
  double number(const Json& json, std::string_view where, std::string_view key, double most);
  std::uint64_t whole(const Json& json, std::string_view where, std::string_view key,
                      std::uint64_t least, std::uint64_t most);
  std::string text(const Json& json, std::string_view where, std::string_view key,
                   std::size_t least, std::size_t most);

  void complain(std::string_view place, std::string_view wanted);
  static std::string place(std::string_view where, std::string_view key);

  // The first error (misuse), or nothing if there was none.
  const std::optional<Failure>& failure() const { return failure_; }

 private:
  const std::string what_, remedy_;
  std::optional<Failure> failure_;
};

// Parses JSON from an untrusted source. Refuses nesting deeper than kDeepestJson, objects that have
// a key twice, and texts and lists that would take an allocation larger than the whole text and
// kSpareJsonBytes. The failure (io) names the reason: "key 'a' is there twice".
inline constexpr int kDeepestJson = 32;
inline constexpr std::size_t kSpareJsonBytes = std::size_t{64} << 20;
Result<JsonReader::Json> parse_strict_json(std::string_view text);

}  // namespace paceline
