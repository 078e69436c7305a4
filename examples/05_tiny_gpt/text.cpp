#include "text.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "../support/king_james.h"
#include "paceline/paceline.h"

namespace tiny_gpt {
namespace {

std::string bytes_of(const std::string& file) {
  if (file.empty()) return examples::king_james_text().value();
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) {
    throw paceline::Error(
        {paceline::Fault::io, "cannot read the text " + file + ": " + std::strerror(errno), {}});
  }
  return bytes;
}

}  // namespace

at::Tensor Text::numbers_of(std::string_view text) const {
  std::vector<std::int64_t> numbers;
  for (const char each : text) {
    const std::size_t number = characters.find(each);
    if (number != std::string::npos) numbers.push_back(static_cast<std::int64_t>(number));
  }
  return at::tensor(numbers, at::kLong);
}

std::string Text::text_of(const at::Tensor& numbers) const {
  std::string text;
  for (std::int64_t i = 0; i < numbers.numel(); ++i)
    text += characters[static_cast<std::size_t>(numbers[i].item<std::int64_t>())];
  return text;
}

Text read_text(const std::string& file, std::int64_t shortest) {
  const std::string bytes = bytes_of(file);
  if (static_cast<std::int64_t>(bytes.size()) < shortest) {
    throw paceline::Error({paceline::Fault::misuse,
                           "the text " + file + " has " + std::to_string(bytes.size()) +
                               " characters, and its held-out tenth must be longer than a "
                               "sequence: give one of at least " +
                               std::to_string(shortest),
                           {}});
  }
  std::array<std::int64_t, 256> number_of{};
  for (const char each : bytes) number_of[static_cast<unsigned char>(each)] = 1;
  Text text;
  for (std::size_t byte = 0; byte < number_of.size(); ++byte) {
    if (number_of[byte] == 0) continue;
    number_of[byte] = text.vocabulary();
    text.characters += static_cast<char>(byte);
  }
  const at::Tensor all = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kLong);
  auto* const numbers = all.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < bytes.size(); ++i)
    numbers[i] = number_of[static_cast<unsigned char>(bytes[i])];
  const std::int64_t training = all.numel() - all.numel() / 10;
  text.training = all.slice(0, 0, training);
  text.held_out = all.slice(0, training);
  return text;
}

at::Tensor sequences(const at::Tensor& text, std::int64_t count, std::int64_t length,
                     std::uint64_t seed, std::int64_t step) {
  auto generator =
      at::detail::createCPUGenerator(paceline::mix(seed, static_cast<std::uint64_t>(step)));
  const at::Tensor places = at::randint(text.numel() - length, {count, 1}, generator, at::kLong);
  return text.take(places + at::arange(length + 1));
}

}  // namespace tiny_gpt
