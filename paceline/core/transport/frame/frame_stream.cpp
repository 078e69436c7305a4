#include "paceline/core/transport/frame/frame_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "paceline/core/base/crc32c.h"

namespace paceline::transport {
namespace {

// The queue is full with this much payload; further frames wait in lanes.
constexpr std::size_t kQueueBytes = 1 << 20;

// Such frames belong to no operation, and stay behind the frames of all operations.
bool belongs_to_none(FrameType type) {
  return type == FrameType::goodbye || type == FrameType::withdraw;
}

}  // namespace

FrameHeader stamped(FrameHeader header, Bytes payload, const StreamIdentity& identity,
                    bool payload_checksum) {
  header.job = identity.job;
  header.generation = identity.generation;
  header.source = identity.own_rank;
  header.length = static_cast<std::uint32_t>(payload.size());
  if (payload_checksum && !payload.empty()) {
    header.flags |= kHasPayloadCrc;
    header.payload_crc = crc32c(payload);
  }
  return header;
}

Result<> check_origin(const FrameHeader& header, const StreamIdentity& identity) {
  if (header.job == identity.job && header.generation == identity.generation &&
      header.source == identity.peer_rank)
    return Done{};
  return Failure{Fault::io,
                 fmt::format("a frame of job {:x}, generation {}, rank {} on the link to rank {} "
                             "of job {:x}, generation {}",
                             header.job, header.generation, header.source, identity.peer_rank,
                             identity.job, identity.generation),
                 {}};
}

Result<> check_target(const FrameHeader& header, MutableBytes target,
                      const StreamIdentity& identity) {
  if (target.empty() || target.size() == header.length) return Done{};
  return Failure{Fault::io,
                 fmt::format("{} bytes came where {} were expected", header.length, target.size()),
                 {static_cast<int>(identity.peer_rank)}};
}

Result<> check_payload(const FrameHeader& header, Bytes payload, const StreamIdentity& identity) {
  if ((header.flags & kHasPayloadCrc) == 0 || crc32c(payload) == header.payload_crc) return Done{};
  return Failure{
      Fault::io,
      fmt::format("payload checksum of a {} frame", identity.kinds->name_of(header.type)),
      {}};
}

FrameStream::FrameStream(ByteChannel& channel, FrameReceiver& receiver,
                         const StreamIdentity& identity, bool payload_checksum)
    : channel_(channel),
      receiver_(receiver),
      identity_(identity),
      payload_checksum_(payload_checksum) {}

void FrameStream::send(FrameHeader header, Bytes payload, SendListener* listener,
                       std::uint64_t cookie) {
  header = stamped(header, payload, identity_, payload_checksum_);
  const bool outlasts = belongs_to_none(header.type);
  if (outlasts) take_turns(~std::size_t{0});
  const bool waits = !lanes_.empty() || queued_bytes_ >= kQueueBytes;
  Outgoing& out = waits ? lanes_.push(header.group, {}) : queue_.emplace_back();
  if (!waits) queued_bytes_ += payload.size();
  out.header = encode(header);
  out.listener = listener;
  out.cookie = cookie;
  out.outlasts = outlasts;
  if (listener == nullptr) {
    out.owned.assign(payload.begin(), payload.end());
    out.payload = out.owned;
  } else {
    out.payload = payload;
  }
}

// One frame of each group after the other, until the queue is full.
void FrameStream::take_turns(std::size_t full) {
  while (!lanes_.empty() && queued_bytes_ < full) {
    queue_.push_back(lanes_.take());
    queued_bytes_ += queue_.back().payload.size();
  }
}

std::size_t FrameStream::unsent_frames() const {
  return queue_.size() + lanes_.size();
}

std::uint64_t FrameStream::unsent_bytes() const {
  std::uint64_t all = 0;
  const auto add = [&all](const Outgoing& one) { all += kFrameHeaderBytes + one.payload.size(); };
  std::ranges::for_each(queue_, add);
  lanes_.for_each(add);
  return all - written_;
}

std::uint64_t FrameStream::received_bytes() const {
  const bool is_in_payload = header_read_ == kFrameHeaderBytes;
  return received_bytes_ + header_read_ + (is_in_payload ? payload_read_ : 0);
}

Result<bool> FrameStream::flush(std::size_t most) {
  std::size_t moved = 0;
  while (!queue_.empty() && moved < most) {
    std::array<Bytes, 8> pieces;
    std::size_t count = 0, skip = written_;
    for (auto out = queue_.begin(); out != queue_.end() && count + 2 <= pieces.size(); ++out) {
      for (const Bytes piece : {Bytes(out->header), out->payload}) {
        const std::size_t skipped = std::min(skip, piece.size());
        skip -= skipped;
        if (skipped < piece.size()) pieces[count++] = piece.subspan(skipped);
      }
    }
    auto accepted = channel_.write(std::span(pieces).first(count));
    if (!accepted) return accepted.error();
    if (*accepted == 0) break;
    moved += *accepted;
    written_ += *accepted;
    sent_bytes_ += *accepted;
    end_written();
  }
  return moved > 0;
}

void FrameStream::end_written() {
  while (!queue_.empty() && written_ >= kFrameHeaderBytes + queue_.front().payload.size()) {
    written_ -= kFrameHeaderBytes + queue_.front().payload.size();
    queued_bytes_ -= queue_.front().payload.size();
    SendListener* listener = queue_.front().listener;
    const std::uint64_t cookie = queue_.front().cookie;
    queue_.pop_front();
    take_turns(kQueueBytes);
    if (listener != nullptr) listener->sent(cookie);  // may queue more
  }
}

Result<bool> FrameStream::receive(std::size_t most) {
  std::size_t moved = 0;
  enough_ = false;
  for (;;) {
    if (moved >= most) enough_ = true;  // but nothing may stay behind in ahead_
    auto some = receive_some();
    if (!some) return some.error();
    if (*some == 0) break;
    moved += *some;
  }
  return moved > 0;
}

Result<bool> FrameStream::look_ahead() {
  if (ahead_begin_ < ahead_end_) return true;
  if (enough_) return false;
  auto count = channel_.read(ahead_);
  if (!count) return count.error();
  ahead_begin_ = 0;
  ahead_end_ = *count;
  enough_ = *count < ahead_.size();
  return *count > 0;
}

std::size_t FrameStream::take_ahead(MutableBytes into) {
  const std::size_t count = std::min(into.size(), ahead_end_ - ahead_begin_);
  std::memcpy(into.data(), ahead_.data() + ahead_begin_, count);
  ahead_begin_ += count;
  return count;
}

Result<std::size_t> FrameStream::receive_some() {
  std::size_t moved = 0;
  if (header_read_ < kFrameHeaderBytes) {
    auto there = look_ahead();
    if (!there) return there.error();
    if (!*there) return moved;
    moved += take_ahead(MutableBytes(raw_).subspan(header_read_));
    header_read_ += moved;
    if (header_read_ < kFrameHeaderBytes) return moved;
    if (auto begun = begin_payload(); !begun) return begun.error();
  }
  if (payload_read_ < header_.length) {
    std::size_t count = take_ahead(target_.subspan(payload_read_));
    if (count == 0 && !enough_) {
      auto read = channel_.read(target_.subspan(payload_read_));
      if (!read) return read.error();
      count = *read;
      enough_ = count < header_.length - payload_read_;
    }
    moved += count;
    payload_read_ += count;
    if (payload_read_ < header_.length) return moved;
  }
  if (auto ended = end_frame(); !ended) return ended.error();
  return moved;
}

Result<> FrameStream::begin_payload() {
  auto header = decode(raw_, *identity_.kinds);
  if (!header) return header.error();
  header_ = *header;
  if (auto ours = check_origin(header_, identity_); !ours) return ours;
  payload_read_ = 0;
  placed_ = false;  // place() may abandon
  target_ = receiver_.place(header_);
  placed_ = !target_.empty();
  if (auto fits = check_target(header_, target_, identity_); !fits) return fits;
  if (placed_) return Done{};
  const bool is_here = ahead_end_ - ahead_begin_ >= header_.length;
  if (is_here && ahead_begin_ % alignof(std::max_align_t) == 0) {  // then it need not be copied
    target_ = MutableBytes(ahead_).subspan(ahead_begin_, header_.length);
    ahead_begin_ += header_.length;
    payload_read_ = header_.length;
    return Done{};
  }
  if (own_payload_.size() < header_.length) own_payload_.resize(header_.length);
  target_ = MutableBytes(own_payload_).first(header_.length);
  return Done{};
}

Result<> FrameStream::end_frame() {
  header_read_ = 0;
  received_bytes_ += kFrameHeaderBytes + header_.length;
  if (auto sound = check_payload(header_, target_, identity_); !sound) return sound;
  return receiver_.received(header_, target_, placed_);
}

void FrameStream::abandon() {
  // More than one frame can have begun while flush() is telling listeners which were sent.
  std::size_t begun = 0;
  for (std::size_t covered = 0; begun < queue_.size() && covered < written_; ++begun) {
    covered += kFrameHeaderBytes + queue_[begun].payload.size();
  }
  const auto waiting = queue_.begin() + static_cast<std::ptrdiff_t>(begun);
  queue_.erase(std::remove_if(waiting, queue_.end(), [](const Outgoing& o) { return !o.outlasts; }),
               queue_.end());
  lanes_.clear();
  queued_bytes_ = 0;
  for (Outgoing& out : queue_) {
    queued_bytes_ += out.payload.size();
    if (out.listener == nullptr) continue;
    out.owned.assign(out.payload.begin(), out.payload.end());
    out.payload = out.owned;
    out.listener = nullptr;
  }
  if (header_read_ == kFrameHeaderBytes && placed_) {
    own_payload_.resize(std::max<std::size_t>(own_payload_.size(), header_.length));
    std::copy_n(target_.begin(), payload_read_, own_payload_.begin());
    target_ = MutableBytes(own_payload_).first(header_.length);
    placed_ = false;
  }
}

}  // namespace paceline::transport
