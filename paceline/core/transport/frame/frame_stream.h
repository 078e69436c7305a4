// Frames over a byte channel: a queue of frames to write, and a reader that asks where each payload
// shall go.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"
#include "paceline/core/transport/frame/frame.h"
#include "paceline/core/transport/frame/frame_kinds.h"
#include "paceline/core/transport/frame/lanes.h"
#include "paceline/core/transport/socket/byte_channel.h"

namespace paceline::transport {

// The identity by which a frame belongs to a link: frames of another job, generation or sender are
// refused, and so are those of other kinds.
struct StreamIdentity {
  std::uint64_t job = 0;
  std::uint64_t generation = 0;
  std::uint32_t own_rank = 0;
  std::uint32_t peer_rank = 0;
  const FrameKinds* kinds = &kTransportKinds;  // that may come; they outlive the link
};

// The header as it is sent: job, generation, source, length and checksum are filled in.
FrameHeader stamped(FrameHeader header, Bytes payload, const StreamIdentity& identity,
                    bool payload_checksum);

// Checks, in this order, the sender, whether the payload fits its place (if it has one), and the
// payload's checksum (if it has one).
Result<> check_origin(const FrameHeader& header, const StreamIdentity& identity);
Result<> check_target(const FrameHeader& header, MutableBytes target,
                      const StreamIdentity& identity);
Result<> check_payload(const FrameHeader& header, Bytes payload, const StreamIdentity& identity);

// A sender that is told when a payload's memory is free again.
class SendListener {
 public:
  virtual ~SendListener() = default;
  virtual void sent(std::uint64_t cookie) = 0;
};

// The receiver of the frames of one stream.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;
  // Returns where the payload of this frame shall be written: exactly header.length bytes, or
  // nothing, and the stream keeps it itself.
  virtual MutableBytes place(const FrameHeader& header) = 0;
  // The frame is here. `payload` lives until the call ends; `placed`: it lies where place() said. A
  // failure ends the stream.
  virtual Result<> received(const FrameHeader& header, Bytes payload, bool placed) = 0;
};

// Frames of one group arrive in the order of their sends. Those of several groups take turns, so
// that a short operation of one never waits behind all of a long one of another; a goodbye and a
// withdraw stay behind everything.
//
// THREAD: reactor's driver only.
class FrameStream {
 public:
  FrameStream(ByteChannel& channel, FrameReceiver& receiver, const StreamIdentity& identity,
              bool payload_checksum);

  // Queues a frame. `payload` must stay valid until the listener hears `cookie`; without a listener
  // it is copied now. The header's job, generation, source, length and checksum are filled in here.
  void send(FrameHeader header, Bytes payload, SendListener* listener = nullptr,
            std::uint64_t cookie = 0);

  // Writes what the channel takes, and not much more than `most` bytes. Returns whether anything
  // moved.
  Result<bool> flush(std::size_t most = ~std::size_t{0});
  bool has_unsent() const { return !queue_.empty(); }
  std::size_t unsent_frames() const;
  // Bytes of frames, with their headers: those that the channel has not taken yet, and those that
  // it has taken and given so far. COST: unsent_bytes() looks at each frame.
  std::uint64_t unsent_bytes() const;
  std::uint64_t sent_bytes() const { return sent_bytes_; }
  std::uint64_t received_bytes() const;

  // Reads what is there and hands it over, but leaves a stream that never dries up after `most`
  // bytes, so that others get their turn. Returns whether anything moved; while it says so, call
  // again.
  Result<bool> receive(std::size_t most = 2 * kLongestPayload);

  // Lets go of callers' memory: from now on none of it is read or written; frames not begun yet are
  // forgotten (but for a goodbye), the rest of one that is being written is copied, and one that is
  // being read goes on into memory of our own.
  void abandon();

 private:
  struct Outgoing {
    RawFrameHeader header;
    std::vector<std::byte> owned;
    Bytes payload;
    SendListener* listener = nullptr;
    std::uint64_t cookie = 0;
    bool outlasts = false;  // an abandonment: it belongs to no operation
  };
  void take_turns(std::size_t full);  // moves frames from the lanes until the queue is full
  void end_written();
  Result<std::size_t> receive_some();  // how many bytes were taken
  Result<bool> look_ahead();           // whether there is something
  std::size_t take_ahead(MutableBytes into);
  Result<> begin_payload();
  Result<> end_frame();

  ByteChannel& channel_;
  FrameReceiver& receiver_;
  StreamIdentity identity_;
  bool payload_checksum_;

  std::deque<Outgoing> queue_;    // in the order of the channel
  std::size_t queued_bytes_ = 0;  // of its payloads
  std::size_t written_ = 0;       // of the queue's first frames, headers included
  Lanes<Outgoing> lanes_;         // behind a full queue
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t received_bytes_ = 0;  // of whole frames

  // Bytes that a read brought beyond those asked for, so that a short frame takes one read, not
  // two.
  alignas(64) std::array<std::byte, 20 << 10> ahead_;
  std::size_t ahead_begin_ = 0, ahead_end_ = 0;
  bool enough_ = false;  // no more reads in this turn: the channel is empty, or others' turn comes

  RawFrameHeader raw_ = {};
  std::size_t header_read_ = 0;
  FrameHeader header_;
  MutableBytes target_;
  std::size_t payload_read_ = 0;
  bool placed_ = false;
  std::vector<std::byte> own_payload_;
};

}  // namespace paceline::transport
