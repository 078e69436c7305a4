#include "paceline/core/transport/fabric/fabric_driver.h"

#include <sys/epoll.h>

#include <array>
#include <atomic>

#include "paceline/core/transport/frame/wire.h"
#include "paceline/core/transport/socket/socket.h"

namespace paceline::transport {
namespace {

constexpr std::uint32_t kLongestAddress = 64 << 10;
constexpr std::chrono::milliseconds kBetweenLooks{100};
constexpr std::chrono::milliseconds kLook{1};
// Once they have each other's address both are here.
constexpr std::chrono::seconds kConnecting{30};

// A port on its way: it ends where it lives, on the driver.
struct Opening {
  explicit Opening(Reactor& its) : reactor(its) {}
  ~Opening() {
    if (port) reactor.run([this] { port.reset(); });
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

  Reactor& reactor;
  std::unique_ptr<FabricPort> port;
};

Result<std::vector<std::byte>> exchange(int socket, Bytes own, Deadline deadline) {
  WireWriter out;
  out.integer(static_cast<std::uint32_t>(own.size())).raw(own);
  if (auto sent = send_all(socket, out.bytes(), deadline); !sent) return sent.error();
  std::array<std::byte, sizeof(std::uint32_t)> raw;
  if (auto got = receive_all(socket, raw, deadline); !got) return got.error();
  const auto length = WireReader(raw).integer<std::uint32_t>();
  if (length > kLongestAddress)
    return Failure{Fault::io, "a peer's address in the fabric is too long", {}};
  std::vector<std::byte> theirs(length);
  if (auto got = receive_all(socket, theirs, deadline); !got) return got.error();
  return theirs;
}

bool wait_until_connected(const FabricPort& port, Reactor& reactor, Deadline deadline,
                          const std::function<void()>& between_looks) {
  std::atomic<bool> connected = false;
  const auto look = [&] {
    if (reactor.driven_by_this_thread() && port.is_connected()) connected = true;
    return connected.load();
  };
  for (auto next = Clock::now(); !deadline.passed();) {
    if (reactor.drive_until(look, deadline.sooner(Deadline::in(kLook)))) return true;
    if (Clock::now() < next) continue;
    next = Clock::now() + kBetweenLooks;
    between_looks();
  }
  return false;
}

}  // namespace

FabricDriver::FabricDriver(std::unique_ptr<Fabric> fabric, Reactor& reactor)
    : fabric_(std::move(fabric)), reactor_(reactor) {
  reactor_.add(*this);
  // Edge-triggered: the descriptor stays readable until it is armed again, which is done before the
  // next sleep and not while the driver looks anyway.
  reactor_.poller().watch(fabric_->descriptor(), EPOLLIN | EPOLLET, [](std::uint32_t) {});
}

FabricDriver::~FabricDriver() {
  reactor_.poller().forget(fabric_->descriptor());
  reactor_.remove(*this);
}

bool FabricDriver::poll() {
  const bool moved = fabric_->progress();
  return moved || must_look_again_;
}

// The reactor looks once more between this and its sleep, and does not sleep if anything moved.
void FabricDriver::set_asleep(bool asleep) {
  must_look_again_ = asleep && !fabric_->arm();
}

Result<std::unique_ptr<FabricPort>> meet_over_fabric(int socket, FabricDriver& driver,
                                                     Reactor& reactor, Deadline deadline,
                                                     const std::function<void()>& between_looks) {
  Opening opening(reactor);
  std::vector<std::byte> own;
  reactor.run([&] {
    opening.port = driver.fabric().open();
    own = opening.port->address();
  });
  auto theirs = exchange(socket, own, deadline);
  if (!theirs) return theirs.error();
  Result<> connecting = Done{};
  reactor.run([&] { connecting = opening.port->connect(*theirs); });
  if (!connecting) return connecting.error();
  const Deadline soon = deadline.sooner(Deadline::in(kConnecting));
  if (!wait_until_connected(*opening.port, reactor, soon, between_looks))
    return Failure{
        Fault::timed_out,
        "it is silent in the fabric: look into its network (UCX_LOG_LEVEL=info), or take "
        "transport tcp",
        {}};
  return std::move(opening.port);
}

}  // namespace paceline::transport
