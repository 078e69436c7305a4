#include "paceline/torch/gradient/step_note.h"

#include <cstring>

namespace paceline::parallel {
namespace {

constexpr std::size_t kHead = sizeof(double) + 1;

}  // namespace

std::vector<std::byte> encode(const StepNote& note) {
  std::vector<std::byte> bytes(kHead + (note.used.size() + 7) / 8, std::byte{0});
  std::memcpy(bytes.data(), &note.weight.weight, sizeof(double));
  bytes[sizeof(double)] = std::byte{note.weight.told};
  for (std::size_t place = 0; place < note.used.size(); ++place) {
    if (note.used[place]) bytes[kHead + place / 8] |= std::byte{1} << (place % 8);
  }
  return bytes;
}

StepNote decode_step_note(Bytes bytes, std::size_t gradients) {
  StepNote note;
  std::memcpy(&note.weight.weight, bytes.data(), sizeof(double));
  note.weight.told = bytes[sizeof(double)] != std::byte{0};
  for (std::size_t place = 0; place < gradients; ++place) {
    note.used.push_back((std::to_integer<unsigned>(bytes[kHead + place / 8]) >> (place % 8) & 1) !=
                        0);
  }
  return note;
}

}  // namespace paceline::parallel
