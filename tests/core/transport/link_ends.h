// Two connected links of each kind, each with a reactor and an owner that keeps the frames that it
// hears: for the conformance of links.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "paceline/core/transport/fabric/fabric_driver.h"
#include "paceline/core/transport/fabric/fabric_link.h"
#include "paceline/core/transport/fabric/fabric_plugin.h"
#include "paceline/core/transport/link/link.h"
#include "paceline/core/transport/link/tcp_link.h"
#include "paceline/core/transport/reactor/reactor.h"
#include "paceline/core/transport/shared/shared_link.h"
#include "paceline/core/transport/socket/socket.h"
#include "tests/core/transport/loopback_fabric.h"
#include "tests/core/transport/test_frames.h"
#include "tests/support/shared_memory.h"

namespace paceline::test {

using namespace std::chrono_literals;

// loopback: a fabric of the tests (loopback_fabric.h); ucx: the plugin's.
enum class Kind { threads, processes, tcp, loopback, ucx };

inline std::string name_of(Kind kind) {
  constexpr std::array kNames = {"threads", "processes", "tcp", "loopback", "ucx"};
  return kNames[static_cast<std::size_t>(kind)];
}

// Why it cannot be tried here; empty: it can.
inline std::string missing(Kind kind) {
  if (kind != Kind::ucx) return {};
  const auto library = transport::load_fabric("ucx");
  return library ? "" : library.error().what;
}

inline std::pair<transport::FileDescriptor, transport::FileDescriptor> tcp_pair() {
  auto listener = transport::listen_tcp({"127.0.0.1", 0}).value();
  auto one =
      transport::connect_tcp(transport::local_address(listener.get()).value(), Deadline::in(5s))
          .value();
  EXPECT_TRUE(transport::wait_for(listener.get(), POLLIN, Deadline::in(5s)));
  return {std::move(one), transport::accept(listener.get()).value()};
}

inline std::pair<transport::FileDescriptor, transport::FileDescriptor> record_pair() {
  std::array<int, 2> ends;
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()),
            0);
  return {transport::FileDescriptor(ends[0]), transport::FileDescriptor(ends[1])};
}

using Mediums =
    std::pair<std::unique_ptr<transport::SharedMedium>, std::unique_ptr<transport::SharedMedium>>;

inline Mediums process_mediums(std::size_t ring_bytes = 64 << 10) {
  auto [one, other] = record_pair();
  auto first =
      transport::make_process_medium(std::move(one), 0, ring_bytes, Deadline::in(5s)).value();
  return {
      std::move(first),
      transport::make_process_medium(std::move(other), 1, ring_bytes, Deadline::in(5s)).value()};
}

// One end. Everything but `heard` and `lost` belongs to the reactor's driver.
class End final : public transport::LinkOwner, public transport::SendListener {
 public:
  struct Heard {
    transport::FrameHeader header;
    std::vector<std::byte> payload;
    bool borrowed = false;
    bool placed = false;
  };

  explicit End(transport::ReactorOptions options = {.spin = 20us, .share_cores = true})
      : reactor(options) {}
  ~End() override { close(); }

  void close() {
    reactor.run([this] {
      link.reset();
      inbox.reset();
      fabric.reset();
    });
  }

  // Frames are told to `on_frame` if there is one; else kept.
  std::function<Result<>(const Heard&)> on_frame;
  std::function<MutableBytes(const transport::FrameHeader&)> place_at;
  bool release_at_once = true;
  std::vector<Heard> heard;
  std::vector<std::uint64_t> cookies;
  std::vector<Failure> losses;
  std::atomic<int> heard_count = 0, sent_count = 0, lost_count = 0;
  transport::SegmentTable segments;
  transport::Reactor reactor;
  std::unique_ptr<transport::FabricDriver> fabric;
  std::unique_ptr<transport::Inbox> inbox;
  std::unique_ptr<transport::Link> link;

  // Before there is a link. THREAD: driver.
  transport::Inbox* open_inbox() {
    const auto memory = shared_memory_of(transport::Inbox::memory_bytes());
    segments.add(transport::InboxPage::kSegment, memory);
    inbox = std::make_unique<transport::Inbox>(memory, 2, reactor);
    return inbox.get();
  }

  bool wait_for_heard(int count) {
    return wait([&] { return heard_count >= count; });
  }
  bool wait_for_sent(int count) {
    return wait([&] { return sent_count >= count; });
  }
  bool wait_for_lost() {
    return wait([&] { return lost_count > 0; });
  }
  bool wait(const std::function<bool()>& done) {
    return reactor.drive_until(done, Deadline::in(20s));
  }

  // Waits for a condition that only the driver may look at.
  bool wait_driving(const std::function<bool()>& condition) {
    std::atomic<bool> holds = false;
    const auto look = [&] {
      if (reactor.driven_by_this_thread() && condition()) holds = true;
      return holds.load();
    };
    // Nothing need wake the reactor when it comes true.
    const Deadline deadline = Deadline::in(10s);
    while (!deadline.passed()) {
      if (reactor.drive_until(look, Deadline::in(1ms))) return true;
    }
    return false;
  }

  MutableBytes place(int, const transport::FrameHeader& header) override {
    return place_at ? place_at(header) : MutableBytes();
  }
  Result<> received(int, const transport::FrameHeader& header, Bytes payload,
                    bool placed) override {
    return keep({header, {payload.begin(), payload.end()}, false, placed});
  }
  Result<> borrowed(int, const transport::FrameHeader& header, Bytes payload) override {
    auto kept = keep({header, {payload.begin(), payload.end()}, true, false});
    if (release_at_once) link->release(header);
    return kept;
  }
  void lost(int, const Failure& why) override {
    losses.push_back(why);
    ++lost_count;
    reactor.note_completion();
  }
  void sent(std::uint64_t cookie) override {
    cookies.push_back(cookie);
    ++sent_count;
    reactor.note_completion();
  }

 private:
  Result<> keep(Heard frame) {
    EXPECT_EQ(lost_count, 0) << "a frame after the end";
    Result<> kept = Done{};
    if (on_frame) kept = on_frame(frame);
    else heard.push_back(std::move(frame));
    ++heard_count;
    reactor.note_completion();
    return kept;
  }
};

constexpr transport::StreamIdentity kFirst{
    .job = 7, .generation = 2, .own_rank = 0, .peer_rank = 1, .kinds = &kTestKinds};
constexpr transport::StreamIdentity kSecond{
    .job = 7, .generation = 2, .own_rank = 1, .peer_rank = 0, .kinds = &kTestKinds};

using Fabrics = std::pair<std::unique_ptr<transport::Fabric>, std::unique_ptr<transport::Fabric>>;

inline Fabrics fabrics(Kind kind) {
  if (kind == Kind::ucx) {
    transport::FabricLibrary& library = *transport::load_fabric("ucx").value();
    return {library.fabric().value(), library.fabric().value()};
  }
  const auto network = std::make_shared<LoopbackNetwork>();
  return {std::make_unique<LoopbackFabric>(network, 1000),
          std::make_unique<LoopbackFabric>(network, 2000)};
}

inline void connect(Fabrics fabrics, End& one, End& other) {
  auto [socket, peers_socket] = tcp_pair();
  const auto join = [](End& end, std::unique_ptr<transport::Fabric> fabric,
                       transport::FileDescriptor own, const transport::StreamIdentity& identity) {
    end.reactor.run([&] {
      end.fabric = std::make_unique<transport::FabricDriver>(std::move(fabric), end.reactor);
    });
    auto port =
        transport::meet_over_fabric(own.get(), *end.fabric, end.reactor, Deadline::in(10s), [] {
        }).value();
    end.reactor.run([&] {
      end.link =
          make_fabric_link(std::move(port), std::move(own), identity, true, end, end.reactor);
    });
  };
  const std::jthread peer(
      [&] { join(other, std::move(fabrics.second), std::move(peers_socket), kSecond); });
  join(one, std::move(fabrics.first), std::move(socket), kFirst);
}

inline void connect(Kind kind, End& one, End& other) {
  if (kind == Kind::loopback || kind == Kind::ucx) return connect(fabrics(kind), one, other);
  if (kind == Kind::tcp) {
    auto [first, second] = tcp_pair();
    one.reactor.run(
        [&] { one.link = make_tcp_link(std::move(first), kFirst, true, one, one.reactor); });
    other.reactor.run([&] {
      other.link = make_tcp_link(std::move(second), kSecond, true, other, other.reactor);
    });
    return;
  }
  Mediums mediums =
      kind == Kind::threads ? transport::make_thread_mediums(64 << 10) : process_mediums();
  // One of two processes has an inbox.
  one.reactor.run([&] {
    transport::Inbox* const inbox = kind == Kind::processes ? one.open_inbox() : nullptr;
    one.link =
        make_shared_link(std::move(mediums.first), kFirst, one.segments, one, one.reactor, inbox);
  });
  other.reactor.run([&] {
    other.link =
        make_shared_link(std::move(mediums.second), kSecond, other.segments, other, other.reactor);
  });
}

}  // namespace paceline::test
