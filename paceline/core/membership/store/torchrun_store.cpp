// The part of c10d::TCPStore's wire that an exchange needs.

#include <array>
// torch/csrc/distributed/c10d/TCPStoreBackend.hpp names the queries; sizes are 64 bits wide,
// integers as the machine has them.
#include <poll.h>

#include "paceline/core/membership/store/exchange.h"
#include "paceline/core/transport/frame/wire.h"
#include "paceline/core/transport/socket/resolve.h"

namespace paceline::membership {
namespace {

using transport::WireReader;
using transport::WireWriter;

enum class Query : std::uint8_t { validate = 0, set = 1, get = 3, wait = 6 };
constexpr std::uint32_t kTorchMagic = 0x3C85F7CE;  // what a client says first
constexpr std::uint8_t kStopWaiting = 0;
constexpr std::uint64_t kLongestAnswer = 4096;

WireWriter& text(WireWriter& to, const std::string& text) {
  return to.integer(std::uint64_t{text.size()}).raw(std::as_bytes(std::span(text)));
}

class TorchrunStore final : public Exchange {
 public:
  TorchrunStore(transport::FileDescriptor socket, std::string key)
      : socket_(std::move(socket)), key_("/" + std::move(key)) {}

  std::string own_host() override { return transport::local_address(socket_.get()).value().host; }

  Result<> tell(const std::string& value, Deadline deadline) override {
    WireWriter query;
    text(text(query.integer(Query::set), key_), value);
    if (auto sent = transport::send_all(socket_.get(), query.bytes(), deadline); !sent) return sent;
    return hear(deadline)
               ? Result<>(Done{})
               : Failure{Fault::io, "torchrun's store did not keep what rank 0 told it", {}};
  }

  // Two questions, one after the other: the store answers a get at once, with nothing, while a wait
  // still waits.
  Result<std::string> hear(Deadline deadline) override {
    WireWriter wait, get;
    text(wait.integer(Query::wait).integer(std::uint64_t{1}), key_);
    text(get.integer(Query::get), key_);
    std::array<std::byte, 1> stopped;
    if (auto got = ask(wait, stopped, deadline); !got) return told(got.error());
    if (std::to_integer<std::uint8_t>(stopped[0]) != kStopWaiting)
      return told({Fault::io, "the wait was cancelled", {}});
    std::array<std::byte, sizeof(std::uint64_t)> size;
    if (auto got = ask(get, size, deadline); !got) return told(got.error());
    const auto length = WireReader(size).integer<std::uint64_t>();
    if (length > kLongestAnswer)
      return told({Fault::io, "an answer that its protocol does not have", {}});
    std::vector<std::byte> value(length);
    if (auto got = transport::receive_all(socket_.get(), value, deadline); !got)
      return told(got.error());
    return std::string(reinterpret_cast<const char*>(value.data()), value.size());
  }

 private:
  Result<> ask(const WireWriter& query, MutableBytes answer, Deadline deadline) {
    if (auto sent = transport::send_all(socket_.get(), query.bytes(), deadline); !sent) return sent;
    return transport::receive_all(socket_.get(), answer, deadline);
  }

  static Failure told(const Failure& why) {
    return {
        why.fault,
        "torchrun's store (MASTER_ADDR:MASTER_PORT) did not tell where rank 0 listens: " + why.what,
        {}};
  }

  transport::FileDescriptor socket_;
  std::string key_;
};

}  // namespace

Result<std::unique_ptr<Exchange>> torchrun_store(const std::string& address, const std::string& key,
                                                 Deadline deadline) {
  auto where = transport::resolve_tcp_address(address);
  if (!where) return where.error();
  auto socket = transport::connect_tcp(*where, deadline);
  if (!socket)
    return Failure{
        socket.error().fault, "torchrun's store cannot be reached: " + socket.error().what, {}};
  if (auto sent = transport::send_all(
          socket->get(), WireWriter().integer(Query::validate).integer(kTorchMagic).bytes(),
          deadline);
      !sent) {
    return sent.error();
  }
  return std::unique_ptr<Exchange>(std::make_unique<TorchrunStore>(std::move(*socket), key));
}

}  // namespace paceline::membership
