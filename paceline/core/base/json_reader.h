// Reads JSON that people may have written: the first thing wrong with it is told, by its place, by
// what must stand there and by what to do.
//
//   JsonReader reader("model m.json", "record it anew");
//   const JsonReader::Json json = reader.parse(text);
//   if (reader.has_keys(json, "", {"bytes"})) bytes = reader.whole(json, "", "bytes", 1, 100);
//   if (reader.failure()) ...  // "model m.json: bytes must be a whole number from 1 to 100;
//   record.."
//
// `where` is the place of a value in the whole, as in "tensors[2]"; "" is the whole.
#pragma once

#include <cstdint>
#include <initializer_list>
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

  // Whether it is an object with all keys that it must have and none but those and what it may.
  // False also after an earlier complaint.
  bool has_keys(const Json& json, std::string_view where, const Keys& must, const Keys& may = {});

  // What stands under a key that is there; something within the bounds after a complaint.
  double number(const Json& json, std::string_view where, std::string_view key, double most);
  std::uint64_t whole(const Json& json, std::string_view where, std::string_view key,
                      std::uint64_t least, std::uint64_t most);
  std::string text(const Json& json, std::string_view where, std::string_view key,
                   std::size_t least, std::size_t most);

  void complain(std::string_view place, std::string_view wanted);
  static std::string place(std::string_view where, std::string_view key);

  // Misuse. Nothing: all was as it must be.
  const std::optional<Failure>& failure() const { return failure_; }

 private:
  const std::string what_, remedy_;
  std::optional<Failure> failure_;
};

}  // namespace paceline
