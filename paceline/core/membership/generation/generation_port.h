// Runs a pure machine (core/machine) among the members of a generation: what it sends travels as
// frames over the links, its timers are the reactor's.
//
// Members are numbered: a rank's number is its rank, and the servers of the job have the numbers
// above. A message may be longer than a frame: it travels in pieces, which the receiver
// puts together in memory before its machine hears of it.
//
// If a server is among the members, so is each that comes late (generation.h). The others' machines
// are not told that it has come: from then on they hear its messages and it hears theirs, and its
// end is told as that of any member. All that is sent to it before is lost. Each member has its link
// before the launcher hears that the newcomer is linked, so machines that go by the launcher's map
// lose nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/membership/generation/generation.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::membership {

class GenerationPort final : private machine::Port, private FrameSink {
 public:
  // `group` marks the frames: the same on all members, and no other group's. The machine hears of
  // the end of each member, and of all when the generation fails. The loss of a member that is
  // `may_be_lost` fails nobody: its machine hears of it, and calls that wait for it fail. All
  // members name the same. `members` are those that have such a machine, alike on all of them;
  // empty: all ranks. `machine` outlives this. THREAD: not the driver; the machine runs on it.
  // THROWS Error (misuse): the number is in use.
  GenerationPort(std::shared_ptr<transport::Reactor> reactor,
                 std::shared_ptr<Generation> generation, std::uint32_t group,
                 machine::Machine& machine, const std::set<int>& may_be_lost = {},
                 const std::set<int>& members = {});
  // The other members' machines hear that this one is lost. The number stays in use: what they had
  // still sent is thrown away when it comes. It waits for nobody. THREAD: not the driver.
  ~GenerationPort() override;
  GenerationPort(const GenerationPort&) = delete;
  GenerationPort& operator=(const GenerationPort&) = delete;

  // The machine hears the message as from this member itself: how it is begun. THREAD: any.
  void tell(machine::Message message);
  // The failure of the generation, from before the machine hears that all members are lost.
  // THREAD: driver.
  const std::optional<Failure>& failure() const { return failure_; }
  // Why the peer's machine hears this one no more, if it has said so: it is not lost otherwise.
  // THREAD: driver.
  std::optional<Failure> dropped_by(int peer) const;
  // Pieces of long messages that have come so far: their number grows while one comes. THREAD: any.
  std::uint64_t pieces() const { return pieces_.load(std::memory_order_relaxed); }

 private:
  void send(int to, const machine::Message& message) override;
  void arm(std::uint32_t timer, machine::Time at) override;
  void drop(int peer, const Failure& why) override;

  MutableBytes place(int, const transport::FrameHeader&) override { return {}; }
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload,
                    bool placed) override;
  Result<> borrowed(int peer, const transport::FrameHeader& header, Bytes payload) override;
  void failed(const Failure& why) override;
  void departed(int peer) override {
    if (peers_.contains(peer)) lose(peer);
  }
  void arrived(int peer) override {
    if (has_servers_) peers_.insert(peer);
  }
  std::string pending_call_of(int) const override { return {}; }

  // A message of which not all pieces have come.
  struct Begun {
    std::vector<std::byte> payload;
    std::uint64_t missing_bytes = 0;
  };

  void lose(int peer);
  bool continues(const Begun& begun, const transport::FrameHeader& header, Bytes piece) const;
  machine::Time now() const { return Clock::now() - begin_; }

  const std::shared_ptr<transport::Reactor> reactor_;
  const std::shared_ptr<Generation> generation_;
  const std::uint32_t group_;
  machine::Machine& machine_;
  std::set<int> peers_;  // the members but this one; the driver's, once it hears frames
  const bool has_servers_;
  const Clock::time_point begin_ = Clock::now();
  // THREAD: the driver alone, from here on.
  std::map<std::uint32_t, transport::Poller::TimerId> timers_;
  std::optional<Failure> failure_;
  std::set<int> parted_;          // nothing comes from them any more
  std::map<int, Failure> drops_;  // the peers' words for it
  std::map<int, Begun> begun_;    // by sender
  std::atomic<std::uint64_t> pieces_ = 0;
  // Ends with this object, which a task may outlive.
  std::shared_ptr<GenerationPort*> self_ = std::make_shared<GenerationPort*>(this);
};

}  // namespace paceline::membership
