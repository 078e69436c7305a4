// Control traffic over one socket: frames out at once, frames in by callback.
#pragma once

#include <functional>

#include "paceline/core/transport/frame/frame_stream.h"
#include "paceline/core/transport/reactor/poller.h"
#include "paceline/core/transport/socket/socket.h"

namespace paceline::transport {

// THREAD: the poller's.
class FrameConnection final : private FrameReceiver {
 public:
  struct Callbacks {
    // A failure ends the connection.
    std::function<Result<>(const FrameHeader&, Bytes payload)> on_frame;
    std::function<void(const Failure&)> on_end;  // once; may destroy the connection
  };
  FrameConnection(FileDescriptor socket, const StreamIdentity& identity, Callbacks callbacks);
  ~FrameConnection() override;

  void watch(Poller& poller);  // moves to this poller
  void send(const FrameHeader& header, Bytes payload);
  bool flushed() const { return !stream_.has_unsent(); }
  std::size_t unsent_frames() const { return stream_.unsent_frames(); }
  int fd() const { return socket_.get(); }

 private:
  MutableBytes place(const FrameHeader&) override { return {}; }
  Result<> received(const FrameHeader& header, Bytes payload, bool) override {
    return callbacks_.on_frame(header, payload);
  }
  void on_ready(std::uint32_t events);
  void update_events();
  void unwatch();

  FileDescriptor socket_;
  SocketChannel channel_;
  FrameStream stream_;
  Callbacks callbacks_;
  Poller* poller_ = nullptr;
  bool waits_to_write_ = false;
};

}  // namespace paceline::transport
