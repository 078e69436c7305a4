#include "paceline/torch/replica/agreement.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "paceline/core/base/base.h"
#include "paceline/core/collective/collective.h"

namespace paceline::parallel {
namespace {

std::string line_at(std::string_view text, std::size_t index) {
  for (; index > 0 && !text.empty(); --index) {
    const auto end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::string(text.substr(0, text.find('\n')));
}

[[noreturn]] void throw_first_difference(int rank, std::string_view expected,
                                         std::string_view got) {
  std::size_t index = 0;
  while (line_at(expected, index) == line_at(got, index)) ++index;
  const auto told = [](const std::string& line) {
    return line.empty() ? std::string("nothing there") : "'" + line + "'";
  };
  throw Error({Fault::mismatch,
               "DataParallel needs the same model on all ranks, but the models differ: "
               "rank 0 has " +
                   told(line_at(expected, index)) + " where rank " + std::to_string(rank) +
                   " has " + told(line_at(got, index)) +
                   ". Build the model in the same way on every rank",
               {0, rank}});
}

// The texts of all ranks if they differ; empty when all agree.
std::vector<std::string> texts_if_different(Communicator& group, const std::string& text) {
  std::uint64_t fingerprint = text.size();
  for (const char c : text) fingerprint = mix(fingerprint, static_cast<unsigned char>(c));
  const std::int64_t own[] = {static_cast<std::int64_t>(fingerprint)};
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  group.all_gather(const_buffer_of(own), buffer_of(all)).wait();
  if (std::ranges::count(all, all[0]) == group.size()) return {};
  return all_gather_bytes(group, text);
}

std::string difference_of(const GivenOption& setting, const std::vector<std::string>& texts,
                          std::size_t index) {
  const std::string expected = line_at(texts[0], index);
  for (std::size_t r = 1; r < texts.size(); ++r) {
    const std::string got = line_at(texts[r], index);
    if (got != expected)
      return setting.name + " is '" + expected + "' on rank 0 and '" + got + "' on rank " +
             std::to_string(r);
  }
  return {};
}

}  // namespace

void require_agreement(Communicator& group, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  const std::vector<std::string> texts = texts_if_different(group, text);
  for (std::size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] != texts[0]) throw_first_difference(static_cast<int>(r), texts[0], texts[r]);
  }
}

void require_same_settings(Communicator& group, const std::vector<GivenOption>& settings) {
  std::string text;
  for (const GivenOption& setting : settings) text += setting.value + '\n';
  const std::vector<std::string> texts = texts_if_different(group, text);
  if (texts.empty()) return;
  std::string differences;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string one = difference_of(settings[i], texts, i);
    if (!one.empty()) differences += (differences.empty() ? "" : "; ") + one;
  }
  std::vector<int> ranks = {0};
  for (std::size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] != texts[0]) ranks.push_back(static_cast<int>(r));
  }
  throw Error({Fault::mismatch,
               "DataParallelOptions must be the same on all ranks, but " + differences +
                   ". Make them in the same way on every rank",
               std::move(ranks)});
}

}  // namespace paceline::parallel
