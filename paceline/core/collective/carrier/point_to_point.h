// Sends and receives between two ranks of a group: matched by (sender, tag) in the order of their
// sends.
//
// A recv takes the first message that fits it: of one rank and tag in the order of the sends; from
// any rank in the order in which this rank heard of them. A message goes to the recv that was
// posted first among those that it fits. Short messages travel with their announcement and are kept
// until their recv comes, up to a budget for each peer; long ones wait until the receiver says that
// it has a place for them. It says so before it hears of them, if their recv comes first: when two
// ranks send to each other, an answer would stand behind all bytes of the answerer's own message.
// Frames: announce, wanted, matched, message (docs/wire.md). Ranks are those of
// the group. THREAD: reactor's driver only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/options.h"
#include "paceline/core/collective/call/traffic.h"
#include "paceline/core/collective/call/work.h"

namespace paceline::collective {

class PointToPoint final : private transport::SendListener {
 public:
  PointToPoint(const Members& members, std::uint32_t group, Traffic& traffic)
      : members_(members), group_(group), traffic_(traffic) {}

  struct Transfer {
    int peer = 0;  // of a recv also kAnyRank, until it meets its message
    std::uint32_t tag = 0;
    ConstBuffer source;  // of a send
    Buffer target;       // of a recv
    Deadline deadline;
    std::shared_ptr<Work::State> work;
    std::uint64_t order = 0;  // of a posted recv: how many came before
    bool is_met = false;      // a recv and the announcement of its send
    bool is_wanted = false;   // a recv: the sender was told of it before its announcement
    bool tells_stalls = true;
    Deadline stalls;  // when its wait is told of; never: it was, or shall not be
  };
  void send(Transfer transfer);
  void recv(Transfer transfer);

  MutableBytes place(int peer, const transport::FrameHeader& header);
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload, bool placed);

  // No transfer is in flight. (A carried send is done once it is on its way.)
  bool idle() const { return sends_.empty() && posted_count_ == 0 && incoming_.empty(); }
  // Ends everything with `why`.
  void failed(const Failure& why);
  // The first transfer that waits for `peer` (kAnyRank: for any), in words; empty: none.
  std::string waits_for(int peer) const;
  std::optional<Failure> overdue(Clock::time_point now);
  // The transfers whose time `stalls` has passed, each once; a transfer that was met only if
  // nothing has moved between this rank and its peer for `patience`.
  std::vector<std::string> stalled(Clock::time_point now, Clock::duration patience);
  Deadline next_deadline() const {
    return idle() ? Deadline() : due_;
  }  // no transfer is due or stalls before
  // The first that `peer` has sent and this rank does not receive, in words; empty: none.
  std::string unreceived_from(int peer) const;

 private:
  struct Announced {  // a send that has not met its recv
    std::uint64_t id = 0;
    Dtype dtype = Dtype::u8;
    std::uint64_t count = 0;
    bool carried = false;  // the payload is here
    std::vector<std::byte> payload = {};
    std::uint64_t order = 0;  // how many this rank heard of before
  };
  struct Outgoing {  // a send that was not carried
    Transfer transfer;
    std::size_t given = 0;   // pieces that the link has
    std::size_t unsent = 0;  // of these, those not yet out
  };
  struct Incoming {
    Transfer transfer;
    std::size_t arrived = 0;
  };
  struct Carried {  // a send that the peer keeps until its recv
    std::uint32_t tag = 0;
    std::size_t cost = 0;
  };
  struct Wanted {                     // sends of a lane for which the peer waits already
    std::uint64_t sent = 0;           // on this lane since the first of them was wanted
    std::deque<std::uint64_t> which;  // each counted as `sent` will be before it
  };
  using Lane = std::pair<std::uint32_t, int>;  // (tag, sender)
  using Key = std::pair<int, std::uint64_t>;   // (peer, id)
  template <typename T>
  using Lanes = std::map<Lane, std::deque<T>>;  // without empty ones

  void sent(std::uint64_t cookie) override;
  Result<> announced(int peer, std::uint32_t tag, Announced announcement);
  Result<> meet(Transfer transfer, Announced announcement);
  Result<> matched(int peer, std::uint64_t id);
  void want(Transfer& recv);
  void wanted(int peer, const transport::FrameHeader& header);
  void note_send(int peer, std::uint32_t tag, std::uint64_t id);
  void note_heard(int peer, std::uint64_t id);
  bool next_is_wanted(int peer, std::uint32_t tag);
  void begin(std::uint64_t id);
  void send_pieces(std::uint64_t id, Outgoing& outgoing);
  static std::size_t pieces_of(const Outgoing& outgoing);
  void finish(const Transfer& transfer, std::optional<Failure> failure);
  Lanes<Announced>::iterator oldest_for(const Transfer& recv);
  Lanes<Transfer>::iterator oldest_recv_of(int peer, std::uint32_t tag);
  template <typename Self, typename Function>
  static void each_waiting(Self& self, const Function& function);  // (what, transfer, buffer, side)
  std::string describe(std::string_view what, const Transfer& transfer, ConstBuffer buffer,
                       std::string_view side) const;
  Deadline soonest() const;

  const Members& members_;
  const std::uint32_t group_;
  Traffic& traffic_;
  std::uint64_t next_id_ = 1;
  std::uint64_t next_order_ = 1;
  std::map<std::uint64_t, Outgoing> sends_;
  std::map<Key, Carried> carried_;
  std::map<int, std::size_t> carried_bytes_;  // by peer: what they count
  std::map<Lane, Wanted> wanted_;             // by tag and receiver; without empty ones
  // Sends of which the peer is not known to have heard, in their order: by tag and receiver, and by
  // receiver with their tags. They may have ended.
  Lanes<std::uint64_t> unheard_;
  std::map<int, std::deque<std::pair<std::uint64_t, std::uint32_t>>> unheard_of_peer_;
  std::map<int, std::uint64_t> heard_;  // by peer: its last send that was announced here
  Lanes<Announced> unexpected_;
  Lanes<Transfer> posted_;
  std::size_t posted_count_ = 0;
  std::map<Key, Incoming> incoming_;
  std::map<int, Clock::time_point> moved_;  // by peer: when the last piece went out or came in
  Deadline due_;
};

}  // namespace paceline::collective
