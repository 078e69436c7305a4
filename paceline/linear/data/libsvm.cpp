#include "paceline/linear/data/libsvm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "paceline/core/base/number.h"

namespace paceline::linear {
namespace {

constexpr std::string_view kBetweenWords = " \t\r\v\f";

// A short piece of a file that may come from a stranger, in ASCII, for messages.
std::string shown(std::string_view text) {
  constexpr std::size_t kMostShown = 40;
  std::string result;
  for (const char letter : text.substr(0, kMostShown)) {
    const bool is_plain = letter >= ' ' && letter <= '~';
    result += is_plain ? std::string(1, letter)
                       : fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
  }
  return text.size() > kMostShown ? result + "..." : result;
}

// A plus sign may stand before the number, as it does before labels in many files.
std::optional<double> finite_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto number = number_in<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

struct LibsvmWord {
  std::string_view text;
  std::size_t column = 0;  // from 1
};

// The words of a line, one after the other.
class LibsvmLine {
 public:
  explicit LibsvmLine(std::string_view line) : line_(line.substr(0, line.find('#'))) {}

  std::optional<LibsvmWord> next() {
    const std::size_t begin = line_.find_first_not_of(kBetweenWords, at_);
    if (begin == std::string_view::npos) return std::nullopt;
    at_ = std::min(line_.find_first_of(kBetweenWords, begin), line_.size());
    return LibsvmWord{line_.substr(begin, at_ - begin), begin + 1};
  }

 private:
  const std::string_view line_;
  std::size_t at_ = 0;
};

class LibsvmParser {
 public:
  LibsvmParser(std::string_view text, std::string_view name, const LibsvmOptions& options)
      : rest_(text), name_(name), first_(options.zero_based ? 0 : 1) {
    const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
    const auto entries = static_cast<std::size_t>(std::ranges::count(text, ':'));
    samples_.labels.reserve(lines);
    samples_.rows.starts.reserve(lines + 1);
    samples_.rows.columns.reserve(entries);
    samples_.rows.values.reserve(entries);
  }

  Result<Samples> parse() && {
    for (line_ = 1; !rest_.empty(); ++line_) {
      const std::string_view line = rest_.substr(0, rest_.find('\n'));
      rest_.remove_prefix(std::min(line.size() + 1, rest_.size()));
      if (auto added = add_sample(line); !added) return added.error();
    }
    if (samples_.size() == 0)
      return Failure{
          Fault::misuse,
          fmt::format("{}: there is no sample in it; each line is LABEL INDEX:VALUE ...", name_),
          {}};
    return std::move(samples_);
  }

 private:
  Failure wrong(std::size_t column, std::string_view what) const {
    return {Fault::misuse, fmt::format("{}:{}:{}: {}", name_, line_, column, what), {}};
  }

  Result<> add_sample(std::string_view line) {
    if (line.size() > kLongestLibsvmLine)
      return wrong(kLongestLibsvmLine + 1,
                   fmt::format("the line has {} bytes; one sample has at most {}", line.size(),
                               kLongestLibsvmLine));
    LibsvmLine words(line);
    const auto label = words.next();
    if (!label) return Done{};
    const auto number = finite_number(label->text);
    if (!number)
      return wrong(label->column,
                   fmt::format("'{}' is no label; a line begins with one finite number, such as "
                               "+1 or -1",
                               shown(label->text)));
    const auto begin = static_cast<std::ptrdiff_t>(samples_.rows.entries());
    while (const auto word = words.next()) {
      if (auto added = add_entry(*word); !added) return added;
    }
    const std::span columns =
        std::span(samples_.rows.columns).subspan(static_cast<std::size_t>(begin));
    if (!std::ranges::is_sorted(columns)) sort_entries(static_cast<std::size_t>(begin));
    if (const auto twice = std::ranges::adjacent_find(columns); twice != columns.end())
      return wrong(label->column,
                   fmt::format("index {} stands twice in the line; give each feature "
                               "of a sample once",
                               *twice + first_));
    samples_.labels.push_back(*number);
    samples_.rows.starts.push_back(samples_.rows.entries());
    if (!columns.empty())
      samples_.rows.width = std::max<std::size_t>(samples_.rows.width, columns.back() + 1);
    return Done{};
  }

  void sort_entries(std::size_t begin) {
    std::vector<std::pair<std::uint32_t, double>> entries;
    for (std::size_t k = begin; k < samples_.rows.entries(); ++k)
      entries.emplace_back(samples_.rows.columns[k], samples_.rows.values[k]);
    std::ranges::stable_sort(entries, {}, &std::pair<std::uint32_t, double>::first);
    for (std::size_t k = 0; k < entries.size(); ++k)
      std::tie(samples_.rows.columns[begin + k], samples_.rows.values[begin + k]) = entries[k];
  }

  Result<> add_entry(const LibsvmWord& word) {
    const std::size_t colon = word.text.find(':');
    if (colon == std::string_view::npos)
      return wrong(word.column,
                   fmt::format("'{}' has no colon; a feature is INDEX:VALUE", shown(word.text)));
    const std::string_view index_text = word.text.substr(0, colon);
    const auto index = number_in<std::uint32_t>(index_text);
    const std::uint32_t last = kMostLibsvmFeatures - 1 + first_;
    if (!index || *index < first_ || *index > last) {
      const bool is_zero = index && *index == 0;
      return wrong(word.column,
                   fmt::format("'{}' is no index; it is a whole number from {} to {}{}",
                               shown(index_text), first_, last,
                               is_zero ? ". If the file's indices count from 0, read it with the "
                                         "option zero_based"
                                       : ""));
    }
    const std::string_view value_text = word.text.substr(colon + 1);
    const auto value = finite_number(value_text);
    if (!value)
      return wrong(word.column + colon + 1,
                   fmt::format("'{}' is no value; it is a finite number, such as 0.5 or 1e-3",
                               shown(value_text)));
    samples_.rows.columns.push_back(*index - first_);
    samples_.rows.values.push_back(*value);
    return Done{};
  }

  std::string_view rest_;
  const std::string_view name_;
  const std::uint32_t first_;  // index
  std::size_t line_ = 1;
  Samples samples_;
};

}  // namespace

Result<Samples> parse_libsvm(std::string_view text, std::string_view name,
                             const LibsvmOptions& options) {
  return LibsvmParser(text, name, options).parse();
}

Result<Samples> read_libsvm(const std::string& path, const LibsvmOptions& options) {
  std::ifstream file(path, std::ios::binary);
  std::string text, piece(std::size_t{1} << 20, '\0');
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)
    text.append(piece, 0, static_cast<std::size_t>(file.gcount()));
  if (file.bad() || !file.is_open())
    return Failure{
        Fault::misuse,
        fmt::format("cannot read the samples of {}: name a LIBSVM file that can be read", path),
        {}};
  return parse_libsvm(text, path, options);
}

}  // namespace paceline::linear
