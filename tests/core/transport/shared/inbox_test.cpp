#include "paceline/core/transport/shared/inbox.h"

#include <gtest/gtest.h>

#include "tests/support/shared_memory.h"

namespace paceline::transport {
namespace {

constexpr int kPeers = 130;  // more than fit into two words

struct SomeLink final : Inbox::User {
  bool marked = true, more = false, moves = false, asleep = false;
  int looks = 0, flushes = 0;
  bool poll() override {
    ++looks;
    return std::exchange(moves, false);
  }
  bool flush() override {
    ++flushes;
    return false;
  }
  void set_asleep(bool is) override { asleep = is; }
  bool is_marked() const override { return marked; }
  bool has_more() const override { return more; }
};

// The reactor is driven by nobody: the test looks itself.
struct Process {
  Reactor reactor;
  std::shared_ptr<const SharedMemory> memory = test::shared_memory_of(Inbox::memory_bytes());
  std::unique_ptr<Inbox> inbox;
  std::vector<SomeLink> links{kPeers};

  explicit Process(bool marked = true) {
    reactor.stop();
    inbox = std::make_unique<Inbox>(memory, kPeers, reactor);
    for (int peer = 0; peer < kPeers; ++peer) {
      link(peer).marked = marked;
      inbox->add(peer, link(peer));
    }
    inbox->poll();  // the first look is at all
    for (SomeLink& one : links) one.looks = 0;
  }
  SomeLink& link(int peer) { return links[static_cast<std::size_t>(peer)]; }
  InboxPage& page() { return *InboxPage::in(memory); }
  int looks() const {
    int all = 0;
    for (const SomeLink& one : links) all += one.looks;
    return all;
  }
};

TEST(Inbox, LooksOnceAtALinkThatWasMarkedAndAtNoOther) {
  Process process;
  process.inbox->poll();
  EXPECT_EQ(process.looks(), 0);
  for (const int peer : {0, 63, 64, 129}) process.page().mark(peer);
  process.page().mark(64);
  process.inbox->poll();
  process.inbox->poll();
  EXPECT_EQ(process.looks(), 4);
  for (const int peer : {0, 63, 64, 129}) EXPECT_EQ(process.link(peer).looks, 1) << peer;
}

TEST(Inbox, LooksEachTimeAtLinksWhosePeersMarkNothing) {
  Process process(false);
  process.inbox->poll();
  process.inbox->poll();
  EXPECT_EQ(process.looks(), 2 * kPeers);
}

TEST(Inbox, LooksAgainAtALinkThatMovedOrHasMoreOrWasNoted) {
  Process process;
  process.link(3).moves = true;
  process.page().mark(3);
  process.inbox->poll();
  process.inbox->poll();
  process.inbox->poll();
  EXPECT_EQ(process.link(3).looks, 2);
  process.link(70).more = true;
  process.inbox->note(70);
  process.inbox->poll();
  process.inbox->poll();
  EXPECT_EQ(process.link(70).looks, 2);
  process.inbox->flush();
  EXPECT_EQ(process.link(70).flushes, 1);
  EXPECT_EQ(process.link(71).flushes, 0);
}

TEST(Inbox, ALinkThatHasEndedIsLookedAtNoMore) {
  Process process;
  process.page().mark(5);
  process.inbox->remove(5);
  process.inbox->poll();
  EXPECT_EQ(process.looks(), 0);
}

TEST(Inbox, AnOwnerThatSleepsIsWokenByWhoeverMarksFirst) {
  Process process;
  EXPECT_FALSE(process.page().mark(1));
  process.inbox->set_asleep(true);
  EXPECT_TRUE(process.page().mark(2));
  EXPECT_FALSE(process.page().mark(3)) << "its bell has been rung";
  process.inbox->set_asleep(true);
  process.inbox->set_asleep(false);
  EXPECT_FALSE(process.page().mark(4));
  EXPECT_FALSE(process.link(4).asleep) << "its peer finds it on the page";
}

TEST(Inbox, NoMemoryIsNoInbox) {
  EXPECT_EQ(InboxPage::in(nullptr), nullptr);
  EXPECT_NE(InboxPage::in(test::shared_memory_of(Inbox::memory_bytes())), nullptr);
}

}  // namespace
}  // namespace paceline::transport
