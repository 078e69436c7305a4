#include "click_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <system_error>

namespace examples {

using paceline::Failure;
using paceline::Fault;
using paceline::Result;

namespace {

constexpr std::size_t kClickFields = 1 + kClickNumbers + kClickCategories;

Failure wrong_line(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

// A field may be anything, and messages stay on a line.
std::string quoted(std::string_view field) {
  constexpr std::size_t kMost = 40;
  std::string shown(field.substr(0, kMost));
  std::ranges::replace_if(
      shown, [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return fmt::format("'{}{}'", shown, field.size() > kMost ? "..." : "");
}

// Whether the whole field is a number of this base; an empty one is none, and right.
template <typename T>
bool read_field(std::string_view field, int base, std::optional<T>& value) {
  if (field.empty()) return true;
  const char* const end = field.data() + field.size();
  const auto read = std::from_chars(field.data(), end, value.emplace(), base);
  return read.ec == std::errc() && read.ptr == end;
}

// The fields of a line that has as many as it should.
using Fields = std::array<std::string_view, kClickFields>;
Result<Fields> fields_of(std::string_view text) {
  const auto count = static_cast<std::size_t>(std::ranges::count(text, '\t')) + 1;
  if (count != kClickFields)
    return wrong_line(
        fmt::format("it has {} fields in place of {}: a line is 0 or 1, {} whole "
                    "numbers and {} categories, with one tab between two of them",
                    count, kClickFields, kClickNumbers, kClickCategories));
  Fields fields;
  for (std::string_view& field : fields) {
    field = text.substr(0, text.find('\t'));
    text.remove_prefix(std::min(field.size() + 1, text.size()));
  }
  return fields;
}

Failure in_line(const std::string& path, std::size_t number, const Failure& failure) {
  return wrong_line(fmt::format("{}, line {}: {}", path, number, failure.what));
}

}  // namespace

std::string text_of(const ClickLine& line) {
  std::string text = line.clicked ? "1" : "0";
  const auto out = std::back_inserter(text);
  for (const auto& number : line.numbers) {
    text += '\t';
    if (number) fmt::format_to(out, "{}", *number);
  }
  for (const auto& category : line.categories) {
    text += '\t';
    if (category) fmt::format_to(out, "{:08x}", *category);
  }
  return text;
}

Result<ClickLine> parse_click_line(std::string_view text) {
  const auto split = fields_of(text);
  if (!split) return split.error();
  const Fields& fields = split.value();
  ClickLine line{.clicked = fields[0] == "1"};
  if (!line.clicked && fields[0] != "0")
    return wrong_line(
        fmt::format("its first field is {}: 1 is a click, 0 none", quoted(fields[0])));
  for (std::size_t i = 0; i < kClickNumbers; ++i) {
    const std::string_view field = fields[1 + i];
    if (!read_field(field, 10, line.numbers[i]))
      return wrong_line(
          fmt::format("number {} is {}: give a whole number of 32 bits such as 17 or "
                      "-1, or leave the field empty",
                      i + 1, quoted(field)));
  }
  for (std::size_t i = 0; i < kClickCategories; ++i) {
    const std::string_view field = fields[1 + kClickNumbers + i];
    if (!read_field(field, 16, line.categories[i]))
      return wrong_line(
          fmt::format("category {} is {}: give a hexadecimal number of 32 bits such "
                      "as 68fd1e64, or leave the field empty",
                      i + 1, quoted(field)));
  }
  return line;
}

Result<std::vector<ClickLine>> read_click_log(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::vector<ClickLine> lines;
  for (std::string text; std::getline(file, text);) {
    if (text.ends_with('\r')) text.pop_back();
    auto line = parse_click_line(text);
    if (!line) return in_line(path, lines.size() + 1, line.error());
    lines.push_back(line.value());
  }
  if (!file.eof())
    return wrong_line(
        fmt::format("cannot read the log of clicks {}: {}: name a file in Criteo's format, or none",
                    path, std::strerror(errno)));
  if (lines.empty())
    return wrong_line(fmt::format("the log of clicks {} has no line: name one that does", path));
  return lines;
}

}  // namespace examples
