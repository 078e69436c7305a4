#include "paceline/plugins/ucx/ucx_port.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "paceline/core/base/deadline.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::ucx {
namespace {

using transport::FabricEvent;
using transport::FabricMessage;

constexpr std::size_t kLongestPrefix = 128;
constexpr std::uint64_t kGreeting = ~std::uint64_t{0};  // an id that no caller uses
constexpr std::size_t kLongestAddress = 64 << 10;
constexpr std::chrono::seconds kClosing{5};

std::uint64_t random_key() {
  std::uint64_t key = 0;
  while (::getrandom(&key, sizeof key, 0) != sizeof key) {
  }
  return key;
}

class UcxMessage final : public FabricMessage {
 public:
  UcxMessage(const Worker& worker, Bytes prefix, void* data, std::size_t bytes, bool is_here)
      : worker_(worker),
        prefix_(prefix.begin(), prefix.end()),
        data_(data),
        bytes_(bytes),
        is_here_(is_here) {}
  ~UcxMessage() override {
    if (data_ != nullptr) ucp_am_data_release(worker_.handle, data_);
  }

  Bytes prefix() const override { return prefix_; }
  std::size_t bytes() const override { return bytes_; }
  bool is_here() const override { return is_here_; }
  Bytes payload() const override { return {static_cast<const std::byte*>(data_), bytes_}; }

  void* take_descriptor() { return std::exchange(data_, nullptr); }

 private:
  const Worker& worker_;
  const std::vector<std::byte> prefix_;
  void* data_;
  const std::size_t bytes_;
  const bool is_here_;
};

}  // namespace

struct UcxPort::Send {
  Lane* lane;
  std::uint64_t id;
  // UCX reads it until the send ends.
  std::array<std::byte, sizeof(std::uint64_t) + kLongestPrefix> header;
};

void UcxPort::Lane::fail(std::string_view doing, ucs_status_t status) {
  if (std::exchange(lost, true)) return;
  add({.why = fmt::format("UCX: {}: {}", doing, ucs_status_string(status))});
}

UcxPort::UcxPort(Worker& worker)
    : worker_(worker), key_(random_key()), lane_(std::make_unique<Lane>()) {
  worker_.ports[key_] = this;
}

UcxPort::~UcxPort() {
  worker_.ports.erase(key_);
  lane_->events.clear();
  if (endpoint_ == nullptr) return;
  ucp_request_param_t now = {};
  now.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  now.flags = UCP_EP_CLOSE_FLAG_FORCE;  // cancels operations in flight
  if (!progress_until_closed(ucp_ep_close_nbx(endpoint_, &now)))
    (void)lane_.release();  // leaked on purpose: UCX may still use it
}

bool UcxPort::progress_until_closed(ucs_status_ptr_t closing) const {
  const Deadline deadline = Deadline::in(kClosing);
  const auto is_closed = [&] {
    return !UCS_PTR_IS_PTR(closing) || ucp_request_check_status(closing) != UCS_INPROGRESS;
  };
  while (!(is_closed() && lane_->unfinished == 0) && !deadline.passed())
    ucp_worker_progress(worker_.handle);
  const bool closed = is_closed() && lane_->unfinished == 0;
  if (UCS_PTR_IS_PTR(closing)) ucp_request_free(closing);
  return closed;
}

std::vector<std::byte> UcxPort::address() const {
  return transport::WireWriter().integer(key_).raw(worker_.address).bytes();
}

Result<> UcxPort::connect(Bytes peers_address) {
  transport::WireReader reader(peers_address);
  peers_key_ = reader.integer<std::uint64_t>();
  if (!reader.ok() || reader.rest().empty() || reader.rest().size() > kLongestAddress)
    return Failure{Fault::io, "the peer's UCX address is malformed", {}};
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(reader.rest().data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = on_error, .arg = lane_.get()};
  const ucs_status_t made = ucp_ep_create(worker_.handle, &params, &endpoint_);
  if (made == UCS_OK) {
    send({}, {}, kGreeting);
    return Done{};
  }
  return Failure{Fault::io,
                 fmt::format("UCX finds no way to the peer: {}; UCX_LOG_LEVEL=info shows what it "
                             "tried, and UCX_TLS must leave it one that can report errors",
                             ucs_status_string(made)),
                 {}};
}

void UcxPort::send(Bytes prefix, Bytes payload, std::uint64_t id) {
  auto sending = std::make_unique<Send>(Send{.lane = lane_.get(), .id = id});
  std::memcpy(sending->header.data(), &peers_key_, sizeof peers_key_);
  std::ranges::copy(prefix, sending->header.begin() + sizeof peers_key_);
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = on_sent;
  param.user_data = sending.get();
  // REPLY asks for the peer's id now; once the peer leaves, it would be too late.
  if (id == kGreeting) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_REPLY;
  }
  ++lane_->unfinished;
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(endpoint_, kFrames, sending->header.data(), sizeof peers_key_ + prefix.size(),
                      payload.data(), payload.size(), &param);
  Send* const owned = sending.release();
  if (!UCS_PTR_IS_PTR(request)) on_sent(nullptr, UCS_PTR_STATUS(request), owned);
}

void UcxPort::on_sent(void* request, ucs_status_t status, void* send) {
  const std::unique_ptr<Send> sent(static_cast<Send*>(send));
  --sent->lane->unfinished;
  if (status != UCS_OK) sent->lane->fail("sending", status);
  else if (sent->id == kGreeting) sent->lane->greeted = true;
  else sent->lane->add({.kind = FabricEvent::Kind::sent, .id = sent->id});
  if (request != nullptr) ucp_request_free(request);
}

bool UcxPort::arrived(Bytes prefix, void* data, std::size_t bytes, bool is_here) {
  if (prefix.empty()) lane_->was_greeted = true;
  if (prefix.empty()) return false;
  void* const kept = is_here && bytes == 0 ? nullptr : data;
  lane_->add({.kind = FabricEvent::Kind::arrived,
              .message = std::make_unique<UcxMessage>(worker_, prefix, kept, bytes, is_here)});
  return kept != nullptr;
}

void UcxPort::fetch(std::unique_ptr<FabricMessage> message, MutableBytes into) {
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = on_fetched;
  param.user_data = lane_.get();
  ++lane_->unfinished;
  void* const descriptor = static_cast<UcxMessage&>(*message).take_descriptor();
  const ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(worker_.handle, descriptor, into.data(), into.size(), &param);
  if (!UCS_PTR_IS_PTR(request)) on_fetched(nullptr, UCS_PTR_STATUS(request), 0, lane_.get());
}

void UcxPort::on_fetched(void* request, ucs_status_t status, std::size_t, void* lane) {
  Lane& of = *static_cast<Lane*>(lane);
  --of.unfinished;
  if (status == UCS_OK) of.add({.kind = FabricEvent::Kind::fetched});
  else of.fail("receiving", status);
  if (request != nullptr) ucp_request_free(request);
}

void UcxPort::on_error(void* lane, ucp_ep_h, ucs_status_t status) {
  static_cast<Lane*>(lane)->fail("the connection", status);
}

std::optional<FabricEvent> UcxPort::next() {
  if (lane_->events.empty()) return std::nullopt;
  FabricEvent event = std::move(lane_->events.front());
  lane_->events.pop_front();
  return event;
}

}  // namespace paceline::ucx
