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

// Goes over a text before anything of it is stored, and tells what in it would take more memory
// than an untrusted text may take; empty: nothing. Text that is no JSON is for the parser to
// refuse.
std::string excess_of(std::string_view text) {
  using Json = JsonReader::Json;
  struct Open {
    std::size_t bytes_of_one, count;
  };
  std::vector<Open> open;  // the lists and objects around this place
  std::size_t token = 0;
  bool is_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (++token > kSpareJsonBytes) return "it has a text or a number of more than 64 MiB";
    if (is_text) {
      if (c == '\\') ++i;
      else if (c == '"') is_text = false;
      continue;
    }
    if (std::string_view("\",:[]{} \t\r\n").find(c) != std::string_view::npos) token = 0;
    if (c == '"') is_text = true;
    if (c == '[') open.push_back({sizeof(Json), 1});
    if (c == '{') open.push_back({sizeof(Json::object_t::value_type), 1});
    if (static_cast<int>(open.size()) > kDeepestJson)
      return fmt::format("it is nested deeper than {} levels", kDeepestJson);
    if (open.empty()) continue;
    if (c == ']' || c == '}') open.pop_back();
    // A vector that grows takes up to twice what it holds.
    if (c == ',' &&
        2 * ++open.back().count * open.back().bytes_of_one > text.size() + kSpareJsonBytes)
      return fmt::format("it has a list or an object of more than {} elements",
                         open.back().count - 1);
  }
  return {};
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
  if (std::string excess = excess_of(text); !excess.empty()) return wrong(std::move(excess));
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int, Event event, const Json& parsed) {
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw Error(wrong(fmt::format("key '{}' is there twice", parsed.get<std::string>())));
    return true;
  };
  try {
    Json json = Json::parse(text, check, /*allow_exceptions=*/false);
    return json.is_discarded() ? Result<Json>(wrong("it is no JSON"))
                               : Result<Json>(std::move(json));
  } catch (const Error& error) {
    return error.failure();
  }
}

}  // namespace paceline
