// MemoryOffers of own memory to one peer, each until the peer has it or cannot have it.
//
// An offer is a descriptor on its way, and can be lost: the system passes no more of a user's
// descriptors at a time than one process may have open (ETOOMANYREFS), and a peer may have none
// free. So the peer answers each offer, and one that is lost is made again, a little later each
// time. In the end the peer is told that the memory is withheld: messages carry what lies there.
//
// THREAD: reactor's driver only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "paceline/core/base/deadline.h"
#include "paceline/core/transport/link/link.h"
#include "paceline/core/transport/reactor/poller.h"
#include "paceline/core/transport/shared/ring.h"
#include "paceline/core/transport/shared/shared_medium.h"

namespace paceline::transport {

class MemoryOffers {
 public:
  // Others of this user need so long at most to take what is on its way to them.
  static constexpr std::chrono::seconds kPatience{5};
  // A peer without a free descriptor may have one soon, or never.
  static constexpr int kMostLost = 6;
  static constexpr std::chrono::milliseconds kSoonest{1}, kLatest{32};

  using Memory = std::shared_ptr<const SharedMemory>;
  using Try = std::function<SharedMedium::Offering(std::uint64_t segment, const Memory& memory)>;
  using Withhold = std::function<void(std::uint64_t segment)>;

  // `withhold` tells the peer. `poller` outlives it.
  MemoryOffers(Poller& poller, Try try_once, Withhold withhold)
      : poller_(poller), try_(std::move(try_once)), withhold_(std::move(withhold)) {}
  ~MemoryOffers();
  MemoryOffers(const MemoryOffers&) = delete;
  MemoryOffers& operator=(const MemoryOffers&) = delete;

  // Without memory it is withheld at once.
  void add(std::uint64_t segment, Memory memory);
  void remove(std::uint64_t segment);
  // The peer has taken the descriptor, and has the memory or has it not.
  void answered(std::uint64_t segment, bool has_it);

  // For who looks oftener than the poller is asked: ranks that share cores with many others.
  void make_due();

  bool has_lost() const { return !lost_.empty(); }  // then make_due() is called at each look

  Offered state(std::uint64_t segment) const;

 private:
  struct Offer {
    Offered state = Offered::awaited;
    int losses = 0;
    Deadline patience;
    Memory memory;  // while it is awaited
  };
  void make(std::uint64_t segment, Offer& offer);
  void lose(std::uint64_t segment, Offer& offer);
  void end(std::uint64_t segment, Offer& offer, Offered state);
  void arm();
  void make_again();

  Poller& poller_;
  const Try try_;
  const Withhold withhold_;
  std::map<std::uint64_t, Offer> offers_;
  std::set<std::uint64_t> lost_;  // to be made again
  std::chrono::milliseconds pause_ = kSoonest;
  std::optional<Poller::TimerId> timer_;
  Clock::time_point due_ = {};
};

// MemoryLeases: whether two ranks may use memory that they have lent each other.
//
// A rank whose call fails says so here before the call returns, and may then use its memory for
// anything. A peer that used the memory looks here after its last read: if the rank has not failed,
// all that it has read was meant for it. Late writes of a peer go to pages that are no longer there
// (SharedMemory::take_back).
//
// Threads of one process have the same pages, so nothing can be taken back from them. They say when
// they begin and end a use, and a rank whose call fails waits for the end.
//
// THREAD: reactor's driver only.
class MemoryLeases {
 public:
  // `region` and `side` are those of RingChannel; `side` is 0 or 1.
  MemoryLeases(MutableBytes region, int side, bool in_one_process);

  // The peer's memory is used between these two; uses may be nested. False: the peer's call has
  // failed. Then begin_use has begun nothing, and data read before end_use must be dropped.
  bool begin_use();
  bool end_use();

  // From now on the peer uses no memory of this rank, or will see that it should not have.
  void fail();

 private:
  RingPair::Side& own_;
  RingPair::Side& peer_;
  const bool in_one_process_;
  std::uint32_t uses_ = 0;
};

}  // namespace paceline::transport
