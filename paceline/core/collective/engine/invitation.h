// Invitation: bytes that the library of a group's first rank gives to those of the others, before
// the group's own frames begin (engine.h).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::collective {

class Invitation final : private membership::FrameSink {
 public:
  // THREAD of this and the next two: that of enlist, while members and reactor live.
  Invitation(const Members& members, std::uint32_t group, transport::Reactor& reactor);
  void pass_on();   // on the first rank: to the others, once it is given
  void withdraw();  // take() returns, and nothing is received any more

  // THREAD: the one that makes the engine; it may go on when all else has ended.
  void give(std::vector<std::byte> own);  // on the first rank
  std::vector<std::byte> take();          // blocks; nothing when it was withdrawn

 private:
  MutableBytes place(int, const transport::FrameHeader&) override { return {}; }
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload,
                    bool placed) override;
  Result<> borrowed(int peer, const transport::FrameHeader& header, Bytes payload) override;
  void failed(const Failure&) override {}
  void departed(int) override {}
  std::string pending_call_of(int) const override { return {}; }

  const Members members_;
  const std::uint32_t group_;
  transport::Reactor& reactor_;
  bool subscribed_ = false;  // THREAD: driver
  bool passed_on_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::vector<std::byte>> bytes_;  // guarded by mutex_
};

}  // namespace paceline::collective
