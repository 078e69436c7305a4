// The kinds of frames that a link accepts: transport's own, and those that the rooms above it send.
//
// Each room numbers its kinds in a header of its own. Whoever makes a link gives it a table of all
// kinds that may come over it (StreamIdentity::kinds); a frame of any other kind ends the link. The
// numbers stand on the wire (docs/wire.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "paceline/core/transport/frame/frame.h"

namespace paceline::transport {

struct FrameKind {
  FrameType type;
  std::string_view name;  // for users; it lives as long as the program
  std::size_t longest_payload;
  // Whether one that finds no receiver is kept until there is one, or dropped.
  bool waits_for_receiver = true;
};

inline constexpr auto kTransportFrames = std::to_array<FrameKind>({
    {FrameType::data, "data", kLongestPayload},
    {FrameType::reference, "reference", kLongestControlPayload},
    {FrameType::taken, "taken", 0},
    {FrameType::withdraw, "withdraw", kLongestControlPayload},
    {FrameType::failure, "failure", kLongestControlPayload},
    {FrameType::goodbye, "goodbye", 0},
    {FrameType::nudge, "nudge", 0},
    {FrameType::passed, "passed", 0},
    {FrameType::heard, "heard", 0},
    {FrameType::attached, "attached", kLongestControlPayload},
    {FrameType::withheld, "withheld", kLongestControlPayload},
});

// The table of kinds, by number.
class FrameKinds {
 public:
  constexpr FrameKinds() { add(kTransportFrames); }
  // Transport's own and these. THROWS as add() does.
  explicit constexpr FrameKinds(std::span<const FrameKind> more) : FrameKinds() { add(more); }

  // THROWS Error (misuse): a number is taken, or a kind has no name. A constant table with such a
  // kind does not compile.
  constexpr void add(std::span<const FrameKind> kinds) {
    for (const FrameKind& kind : kinds) {
      FrameKind& place = by_number_[static_cast<std::uint8_t>(kind.type)];
      if (kind.name.empty() || !place.name.empty()) refuse(kind, place);
      place = kind;
    }
  }

  // nullptr: it is none of these.
  constexpr const FrameKind* find(FrameType type) const {
    const FrameKind& kind = by_number_[static_cast<std::uint8_t>(type)];
    return kind.name.empty() ? nullptr : &kind;
  }
  constexpr std::string_view name_of(FrameType type) const {
    const FrameKind* const kind = find(type);
    return kind == nullptr ? "unknown" : kind->name;
  }

 private:
  [[noreturn]] static void refuse(const FrameKind& kind, const FrameKind& taken_by);

  std::array<FrameKind, 256> by_number_ = {};  // without a name where there is none
};

inline constexpr FrameKinds kTransportKinds;

}  // namespace paceline::transport
