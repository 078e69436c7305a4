// Frames over a byte channel: a queue of frames to write, and a reader that asks where each payload
// shall go.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/transport/byte_channel.h"
#include "paceline/core/transport/frame.h"

namespace paceline::transport {

// Who is told that a payload's memory is free again.
class SendListener {
 public:
  virtual ~SendListener() = default;
  virtual void sent(std::uint64_t cookie) = 0;
};

// Who receives the frames of one stream.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;
  // Where the payload of this frame shall be written: exactly header.length bytes, or nothing, and
  // the stream keeps it itself.
  virtual MutableBytes place(const FrameHeader& header) = 0;
  // The frame is here. `payload` lives until the call ends; `placed`: it lies where place() said. A
  // failure ends the stream.
  virtual Result<> received(const FrameHeader& header, Bytes payload, bool placed) = 0;
};

// What makes a frame belong here: frames of another job, generation or sender are refused.
struct StreamIdentity {
  std::uint64_t job = 0;
  std::uint64_t generation = 0;
  std::uint32_t own_rank = 0;
  std::uint32_t peer_rank = 0;
};

// THREAD: reactor's driver only.
class FrameStream {
 public:
  FrameStream(ByteChannel& channel, FrameReceiver& receiver, const StreamIdentity& identity,
              bool payload_checksum);

  // Queues a frame. `payload` must stay valid until the listener hears `cookie`; without a listener
  // it is copied now. The header's job, generation, source, length and checksum are filled in here.
  void send(FrameHeader header, Bytes payload, SendListener* listener = nullptr,
            std::uint64_t cookie = 0);

  // Writes what the channel takes. Returns whether anything moved.
  Result<bool> flush();
  bool has_unsent() const { return !queue_.empty(); }
  std::size_t unsent_frames() const { return queue_.size(); }

  // Reads what is there and hands it over, but leaves a stream that never dries up after some
  // megabytes, so that others get their turn. Returns whether anything moved; while it says so,
  // call again.
  Result<bool> receive();

  // From now on no memory of a caller is read or written: frames not begun yet are forgotten, the
  // rest of one that is being written is copied, and one that is being read goes on into memory of
  // our own.
  void abandon();

 private:
  struct Outgoing {
    RawFrameHeader header;
    std::vector<std::byte> owned;
    Bytes payload;
    SendListener* listener = nullptr;
    std::uint64_t cookie = 0;
  };
  Result<std::size_t> receive_some();  // how many bytes were taken
  Result<bool> look_ahead();           // whether there is something
  std::size_t take_ahead(MutableBytes into);
  Result<> begin_payload();
  Result<> end_frame();

  ByteChannel& channel_;
  FrameReceiver& receiver_;
  StreamIdentity identity_;
  bool payload_checksum_;

  std::deque<Outgoing> queue_;
  std::size_t written_ = 0;  // of the queue's first frames, headers included

  // What was read beyond what was asked for: a short frame takes one read, not two.
  std::array<std::byte, 4096> ahead_;
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
