#include "paceline/core/base/json_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace paceline {
namespace {

std::string_view name_of_place(std::string_view where) {
  return where.empty() ? "the whole" : where;
}

}  // namespace

std::string JsonReader::place(std::string_view where, std::string_view key) {
  return where.empty() ? std::string(key) : fmt::format("{}.{}", where, key);
}

void JsonReader::complain(std::string_view place, std::string_view wanted) {
  if (failure_) return;
  failure_ = Failure{
      Fault::misuse, fmt::format("{}: {} must be {}; {}", what_, place, wanted, remedy_), {}};
}

JsonReader::Json JsonReader::parse(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) complain(name_of_place(""), "a JSON object");
  return json;
}

bool JsonReader::has_keys(const Json& json, std::string_view where, const Keys& must,
                          const Keys& may) {
  if (!json.is_object()) {
    complain(name_of_place(where), "a JSON object");
    return false;
  }
  for (const std::string_view key : must)
    if (!json.contains(key)) complain(place(where, key), "given");
  Keys all = must;
  all.insert(all.end(), may.begin(), may.end());
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(all, key) == all.end())
      complain(fmt::format("key '{}' of {}", key, name_of_place(where)),
               fmt::format("one of {}", fmt::join(all, ", ")));
  }
  return !failure_;
}

double JsonReader::number(const Json& json, std::string_view where, std::string_view key,
                          double most) {
  const Json& found = json.at(std::string(key));
  const double read = found.is_number() ? found.get<double>() : -1;
  if (read >= 0 && read <= most) return read;
  complain(place(where, key), fmt::format("a number from 0 to {}", most));
  return 0;
}

std::uint64_t JsonReader::whole(const Json& json, std::string_view where, std::string_view key,
                                std::uint64_t least, std::uint64_t most) {
  const Json& found = json.at(std::string(key));
  const std::uint64_t read = found.is_number_unsigned() ? found.get<std::uint64_t>() : 0;
  if (found.is_number_unsigned() && read >= least && read <= most) return read;
  complain(place(where, key), fmt::format("a whole number from {} to {}", least, most));
  return least;
}

std::string JsonReader::text(const Json& json, std::string_view where, std::string_view key,
                             std::size_t least, std::size_t most) {
  const Json& found = json.at(std::string(key));
  std::string read = found.is_string() ? found.get<std::string>() : "";
  if (found.is_string() && read.size() >= least && read.size() <= most) return read;
  complain(place(where, key), fmt::format("a text of {} to {} bytes", least, most));
  return {};
}

Result<JsonReader::Json> parse_strict_json(std::string_view text) {
  using Json = JsonReader::Json;
  using Event = Json::parse_event_t;
  const auto wrong = [](std::string what) { return Failure{Fault::io, std::move(what), {}}; };
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, Event event, const Json& parsed) {
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (opens && depth >= kDeepestJson)
      throw Error(wrong(fmt::format("it is nested deeper than {} levels", kDeepestJson)));
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw Error(wrong(fmt::format("key '{}' is there twice", parsed.get<std::string>())));
    return true;
  };
  try {
    Json json = Json::parse(text, check, /*allow_exceptions=*/false);
    return json.is_discarded() ? Result<Json>(wrong("it is no JSON")) : Result<Json>(json);
  } catch (const Error& error) {
    return error.failure();
  }
}

}  // namespace paceline
