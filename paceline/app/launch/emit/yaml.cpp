#include "paceline/app/launch/emit/yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "paceline/core/base/check.h"

namespace paceline::launch {
namespace {

// The words that some reader takes for a boolean or for nothing.
constexpr std::array<std::string_view, 9> kNoText = {"y",   "n",    "yes",   "no",  "on",
                                                     "off", "true", "false", "null"};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return result;
}

// Only what is a text without doubt: it begins with a letter, after "-", "--", "/" or "./".
bool is_plain(std::string_view text) {
  constexpr std::string_view kInside =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=+@,-";
  if (text.empty() || text.ends_with(':')) return false;
  if (text.find_first_not_of(kInside) != std::string_view::npos) return false;
  if (text == "--") return true;  // ends the options of a command
  std::string_view rest = text;
  for (const std::string_view start : {"--", "-", "./", "/"}) {
    if (rest.starts_with(start)) {
      rest.remove_prefix(start.size());
      break;
    }
  }
  return !rest.empty() && is_letter(rest.front()) &&
         std::ranges::find(kNoText, lower_case(text)) == kNoText.end();
}

// The characters that JSON leaves as they are in a text, and YAML forbids or takes for an end of
// line.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kEscaped = {{
    {"\x7f", "\\x7F"},
    {"\xC2\xA0", "\\_"},
    {"\xE2\x80\xA8", "\\L"},
    {"\xE2\x80\xA9", "\\P"},
    {"\xEF\xBB\xBF", "\\uFEFF"},
    {"\xEF\xBF\xBE", "\\uFFFE"},
    {"\xEF\xBF\xBF", "\\uFFFF"},
}};

std::string quoted_text(const Json& text) {
  const std::string json = text.dump();
  std::string result;
  for (std::string_view rest = json; !rest.empty();) {
    const auto known = std::ranges::find_if(
        kEscaped, [&](const auto& entry) { return rest.starts_with(entry.first); });
    if (known != kEscaped.end()) {
      result += known->second;
      rest.remove_prefix(known->first.size());
    } else if (rest.size() > 1 && rest[0] == '\xC2' && static_cast<unsigned char>(rest[1]) < 0xA0) {
      result += fmt::format("\\x{:02X}", static_cast<unsigned char>(rest[1]));
      rest.remove_prefix(2);
    } else {
      result += rest.front();
      rest.remove_prefix(1);
    }
  }
  return result;
}

std::string scalar(const Json& value) {
  if (value.is_structured()) return value.is_object() ? "{}" : "[]";
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  return is_plain(text) ? text : quoted_text(value);
}

bool fits_its_line(const Json& value) {
  return !value.is_structured() || value.empty();
}

void write(const Json& value, std::size_t indent, std::string& to);

// The value of a member or an item, whose "name:" or "-" stands at the end of `to`. An item's
// object begins on the item's own line.
void write_after(bool item, const Json& value, std::size_t indent, std::string& to) {
  if (fits_its_line(value)) {
    to += " " + scalar(value) + "\n";
  } else if (item) {
    std::string block;
    write(value, indent + 2, block);
    to += " " + block.substr(indent + 2);
  } else {
    to += "\n";
    write(value, indent + 2, to);
  }
}

void write(const Json& value, std::size_t indent, std::string& to) {
  const std::string margin(indent, ' ');
  if (value.is_object()) {
    for (const auto& [name, member] : value.items()) {
      to += margin + scalar(name) + ":";
      write_after(false, member, indent, to);
    }
  } else {
    for (const Json& item : value) {
      to += margin + "-";
      write_after(true, item, indent, to);
    }
  }
}

}  // namespace

std::string yaml(const Json& value) {
  std::string text;
  try {
    if (fits_its_line(value)) text = scalar(value) + "\n";
    else write(value, 0, text);
  } catch (const Json::type_error&) {
    throw_misuse(
        "a word of the command or a variable is not UTF-8, and a YAML file holds nothing else; "
        "name it otherwise");
  }
  return text;
}

}  // namespace paceline::launch
