#include "click_data.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "../support/click_teacher.h"

namespace click_through {
namespace {

using examples::ClickLine;

std::vector<ClickLine> drawn_lines(const RunOptions& options) {
  const examples::ClickTeacher teacher(options.seed);
  std::vector<ClickLine> lines;
  for (std::int64_t i = 0; i < options.lines; ++i)
    lines.push_back(teacher.draw(static_cast<std::uint64_t>(i)).line);
  return lines;
}

// One hash of 48 bits for each category of each column, so that no dictionary is needed. Categories
// that are not known are one of their column.
std::int64_t id_of(std::size_t column, const std::optional<std::uint32_t>& category) {
  constexpr std::uint64_t kUnknown = std::uint64_t{1} << 32;
  const std::uint64_t hash =
      paceline::mix(paceline::mix(0, column), category ? *category : kUnknown);
  return static_cast<std::int64_t>(hash >> 16);
}

// Counts of all sizes become numbers of about 1.
float scaled(const std::optional<std::int32_t>& number) {
  constexpr double kScale = 4;
  if (!number) return 0;
  const double size = std::log1p(std::abs(static_cast<double>(*number))) / kScale;
  return static_cast<float>(*number < 0 ? -size : size);
}

// The last tenth of the lines, which it takes away.
std::vector<ClickLine> take_tenth(std::vector<ClickLine>& lines, const std::string& file) {
  constexpr std::ptrdiff_t kTenth = 10;
  const auto last = lines.end() - std::ssize(lines) / kTenth;
  if (last == lines.end())
    paceline::throw_misuse("the log of clicks " + file + " has " + std::to_string(lines.size()) +
                           " lines, of which no tenth can be held out: give at least 10, or others "
                           "by --test");
  std::vector<ClickLine> tenth(last, lines.end());
  lines.erase(last, lines.end());
  return tenth;
}

}  // namespace

ClickData load(const RunOptions& options) {
  ClickData data;
  data.training = options.train.empty() ? drawn_lines(options)
                                        : examples::read_click_log(options.train).value();
  data.held_out = options.test.empty() ? take_tenth(data.training, options.train)
                                       : examples::read_click_log(options.test).value();
  const auto clicked = std::ranges::count(data.held_out, true, &ClickLine::clicked);
  if (clicked == 0 || clicked == std::ssize(data.held_out))
    paceline::throw_misuse("of " + std::to_string(data.held_out.size()) + " held-out lines " +
                           std::to_string(clicked) +
                           " are clicked, and there must be some of both kinds to rank them: hold "
                           "out more, by --test or longer logs");
  return data;
}

void write_lines(const RunOptions& options) {
  const examples::ClickTeacher teacher(options.seed);
  errno = 0;
  std::ofstream file(options.generate, std::ios::binary);
  for (std::int64_t i = 0; i < options.lines && file; ++i)
    file << examples::text_of(teacher.draw(static_cast<std::uint64_t>(i)).line) << '\n';
  file.close();
  if (!file)
    throw paceline::Error(
        paceline::io_failure("cannot write the log of clicks " + options.generate, errno));
}

ClickBatch batch_of(const std::vector<ClickLine>& lines, const at::Tensor& indices) {
  const std::int64_t count = indices.numel();
  ClickBatch batch{.ids = at::empty({count, kCategories}, at::kLong),
                   .numbers = at::empty({count, kNumbers}, at::kFloat),
                   .clicked = at::empty({count}, at::kFloat)};
  auto* id = batch.ids.mutable_data_ptr<std::int64_t>();
  auto* number = batch.numbers.mutable_data_ptr<float>();
  auto* clicked = batch.clicked.mutable_data_ptr<float>();
  const at::Tensor whole = indices.contiguous();
  const auto* const index = whole.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const ClickLine& line = lines[static_cast<std::size_t>(index[i])];
    for (std::size_t column = 0; column < line.categories.size(); ++column)
      *id++ = id_of(column, line.categories[column]);
    number = std::ranges::transform(line.numbers, number, scaled).out;
    *clicked++ = line.clicked ? 1.0F : 0.0F;
  }
  return batch;
}

}  // namespace click_through
