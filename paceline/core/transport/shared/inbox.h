// Inbox: how a process that shares memory with many others learns which links have news for it.
//
// Its page is seen by all of them. A peer that has moved something on a link marks the link there,
// and finds on the same line whether this process sleeps. So a look costs a line for 64 peers where
// asking each link's ring costs a line for each, and falling asleep is told once: with n ranks on a
// host it was n lines a look, n * n for all.
//
// A peer marks links from when it has the page, which it is offered as any memory
// (memory_offers.h). The links of peers that have not told so, or cannot have it, are looked at
// each time. THREAD: reactor's driver only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/transport/memory/shared_memory.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::transport {

// Peers write this part of an inbox.
class InboxPage {
 public:
  static constexpr std::uint64_t kSegment = ~std::uint64_t{0} - 1;
  static constexpr std::size_t kMostPeers = 4096;

  // nullptr: the memory is no inbox.
  static InboxPage* in(const std::shared_ptr<const SharedMemory>& memory);

  // Marks the link to `peer`. True: the owner sleeps, and is woken by whoever hears so first.
  bool mark(int peer);

 private:
  friend class Inbox;
  std::atomic<std::uint32_t> asleep_;
  std::atomic<std::uint64_t> marks_[kMostPeers / 64];
};

class Inbox final : public Pollable {
 public:
  // With fewer ranks the rings themselves are looked at as fast.
  static constexpr int kFewestRanks = 8;

  class User : public Pollable {
   public:
    virtual bool is_marked() const = 0;  // the peer marks its link
    virtual bool has_more() const = 0;   // it must be looked at again without a mark
  };

  // `memory` is a new page of memory_bytes(), which is offered to all peers as
  // InboxPage::kSegment; `reactor` outlives it. REQUIRES: peers < InboxPage::kMostPeers.
  Inbox(std::shared_ptr<const SharedMemory> memory, int peers, Reactor& reactor);
  ~Inbox() override;
  static std::size_t memory_bytes() { return sizeof(InboxPage); }

  void add(int peer, User& user);
  void remove(int peer);
  // The link is looked at next time: something is to be sent on it, or it has ended.
  void note(int peer);

  bool poll() override;
  bool flush() override;
  void set_asleep(bool asleep) override;

 private:
  static constexpr std::size_t kBits = 64;
  void take_marks();
  template <typename Look>
  bool each_due(const Look& look);

  const std::shared_ptr<const SharedMemory> memory_;
  InboxPage& page_;
  Reactor& reactor_;
  std::vector<User*> users_;           // by peer
  std::vector<std::uint64_t> due_;     // bits of peers whose links are looked at next
  std::vector<std::uint64_t> always_;  // of peers that mark nothing
};

}  // namespace paceline::transport
