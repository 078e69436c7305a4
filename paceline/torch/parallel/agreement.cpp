#include "paceline/torch/parallel/agreement.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "paceline/core/base/base.h"

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
               "DataParallel needs the same model and options on all ranks, but the models differ: "
               "rank 0 has " +
                   told(line_at(expected, index)) + " where rank " + std::to_string(rank) +
                   " has " + told(line_at(got, index)) +
                   ". Build the model in the same way on every rank",
               {0, rank}});
}

}  // namespace

void require_agreement(Communicator& group, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  std::uint64_t fingerprint = lines.size();
  for (char c : text) fingerprint = mix(fingerprint, static_cast<unsigned char>(c));

  const auto ranks = static_cast<std::size_t>(group.size());
  const std::int64_t own[2] = {static_cast<std::int64_t>(fingerprint),
                               static_cast<std::int64_t>(text.size())};
  std::vector<std::int64_t> all(2 * ranks);
  group.all_gather(const_buffer_of(own), buffer_of(all)).wait();
  std::size_t longest = 0;
  bool equal = true;
  for (std::size_t r = 0; r < ranks; ++r) {
    equal = equal && all[2 * r] == all[0] && all[2 * r + 1] == all[1];
    longest = std::max(longest, static_cast<std::size_t>(all[2 * r + 1]));
  }
  if (equal) return;

  // Everybody knows now that somebody differs: tell each other everything, padded to one length.
  text.resize(longest, '\0');
  std::string texts(longest * ranks, '\0');
  group
      .all_gather({std::as_bytes(std::span(text)).data(), longest, Dtype::u8},
                  {std::as_writable_bytes(std::span(texts)).data(), texts.size(), Dtype::u8})
      .wait();
  const auto text_of = [&](std::size_t r) {
    return std::string_view(texts).substr(r * longest, static_cast<std::size_t>(all[2 * r + 1]));
  };
  for (std::size_t r = 1; r < ranks; ++r) {
    if (text_of(r) != text_of(0))
      throw_first_difference(static_cast<int>(r), text_of(0), text_of(r));
  }
}

}  // namespace paceline::parallel
