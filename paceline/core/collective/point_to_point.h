// Sends and receives between two ranks of a group: matched by (sender, tag) in the order of their sends.
//
// Short messages travel with their announcement and are kept until their recv comes, up to a budget for each peer; long ones wait until
// the receiver says that it has a place for them. Frames: announce, matched, message (docs/wire.md).
// THREAD: reactor's driver only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "paceline/core/collective/communicator.h"
#include "paceline/core/membership/mesh.h"

namespace paceline::collective {

class PointToPoint final : private transport::SendListener {
 public:
  PointToPoint(membership::Mesh& mesh, std::uint32_t group, Traffic& traffic) : mesh_(mesh), group_(group), traffic_(traffic) {}

  struct Transfer {
    int peer = 0;
    std::uint32_t tag = 0;
    ConstBuffer source;  // of a send
    Buffer target;       // of a recv
    Deadline deadline;
    std::shared_ptr<Work::State> work;
  };
  void send(Transfer transfer);
  void recv(Transfer transfer);

  MutableBytes place(int peer, const transport::FrameHeader& header);
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload, bool placed);

  // No transfer is in flight. (A carried send is done once it is on its way.)
  bool idle() const { return sends_.empty() && posted_count_ == 0 && incoming_.empty(); }
  // Ends everything with `why`.
  void failed(const Failure& why);
  // The first transfer that waits for `peer`, or whose deadline has passed, in words; empty: none.
  std::string waits_for(int peer) const;
  std::optional<Failure> overdue(Clock::time_point now);
  Deadline next_deadline() const { return idle() ? Deadline() : due_; }  // no transfer is due before

 private:
  struct Announced {  // a send that has not met its recv
    std::uint64_t id = 0;
    Dtype dtype = Dtype::u8;
    std::uint64_t count = 0;
    bool carried = false;  // the payload is here
    std::vector<std::byte> payload = {};
  };
  struct Outgoing {  // a send that was not carried
    Transfer transfer;
    std::size_t unsent = 0;  // pieces not yet out
    bool matched = false;
  };
  struct Incoming {
    Transfer transfer;
    std::size_t arrived = 0;
  };
  using Lane = std::pair<int, std::uint32_t>;  // (sender, tag)
  using Key = std::pair<int, std::uint64_t>;   // (peer, id)

  void sent(std::uint64_t cookie) override;
  Result<> announced(int peer, std::uint32_t tag, Announced announcement);
  Result<> meet(Transfer transfer, Announced announcement);
  Result<> matched(int peer, std::uint64_t id);
  void send_pieces(std::uint64_t id, Outgoing& outgoing);
  void finish(const Transfer& transfer, std::optional<Failure> failure);
  Deadline soonest() const;

  membership::Mesh& mesh_;
  const std::uint32_t group_;
  Traffic& traffic_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Outgoing> sends_;
  std::map<Key, std::size_t> carried_;        // sends that the peer keeps until their recv: what they count
  std::map<int, std::size_t> carried_bytes_;  // by peer: the sum
  std::map<Lane, std::deque<Announced>> unexpected_;
  std::map<Lane, std::deque<Transfer>> posted_;
  std::size_t posted_count_ = 0;
  std::map<Key, Incoming> incoming_;
  Deadline due_;
};

}  // namespace paceline::collective
