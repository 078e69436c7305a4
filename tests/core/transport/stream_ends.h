// Both ends of a frame stream in memory.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "paceline/core/transport/frame/frame_stream.h"
#include "tests/core/transport/test_frames.h"
#include "tests/support/pattern.h"

namespace paceline::transport::testing {

// A pipe in memory that gives and takes as much at a time as the test says.
class Pipe final : public ByteChannel {
 public:
  std::deque<std::byte> bytes;
  std::function<std::size_t()> portion = [] { return ~std::size_t{0}; };  // of one read or write
  std::optional<Failure> end;  // told when the pipe is empty

  Result<std::size_t> read(MutableBytes into) override {
    const std::size_t count = std::min({into.size(), bytes.size(), portion()});
    if (bytes.empty() && end) return *end;
    std::copy_n(bytes.begin(), count, into.begin());
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  Result<std::size_t> write(std::span<const Bytes> pieces) override {
    std::size_t left = portion(), written = 0;
    for (const Bytes piece : pieces) {
      const std::size_t count = std::min(left, piece.size());
      bytes.insert(bytes.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count));
      left -= count;
      written += count;
    }
    return written;
  }
};

struct Heard {
  FrameHeader header;
  std::vector<std::byte> payload;
  bool operator==(const Heard&) const = default;
};

class Receiver final : public FrameReceiver {
 public:
  std::vector<Heard> heard;
  std::function<MutableBytes(const FrameHeader&)> place_at = [](const FrameHeader&) {
    return MutableBytes();
  };
  MutableBytes place(const FrameHeader& header) override { return place_at(header); }
  Result<> received(const FrameHeader& header, Bytes payload, bool) override {
    heard.push_back({header, {payload.begin(), payload.end()}});
    return Done{};
  }
};

class Listener final : public SendListener {
 public:
  std::vector<std::uint64_t> cookies;
  std::function<void()> then = [] {};
  void sent(std::uint64_t cookie) override {
    cookies.push_back(cookie);
    then();
  }
};

inline constexpr StreamIdentity kSender{
    .job = 11, .generation = 3, .own_rank = 0, .peer_rank = 1, .kinds = &test::kTestKinds};
inline constexpr StreamIdentity kReceiver{
    .job = 11, .generation = 3, .own_rank = 1, .peer_rank = 0, .kinds = &test::kTestKinds};

// The long frames of group 1 of one segment of a large operation, and short frames of other groups
// after them.
struct Queued {
  static constexpr std::uint64_t kLong = 100;
  std::vector<std::byte> payload = test::pattern(64 << 10, 1);
  Listener listener;

  explicit Queued(FrameStream& out) {
    for (std::uint64_t i = 0; i < kLong; ++i)
      out.send({.type = FrameType::data, .sequence = i, .group = 1}, payload, &listener, i);
  }
};

}  // namespace paceline::transport::testing
