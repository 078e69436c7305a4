// One lane of UCX active messages to one peer.
//
// Many ports share a worker, whose messages do not tell their sender. So each port makes a random
// key and tells it to its peer alone; every message begins with the key of its target port, and a
// message without a known key is dropped, because UCX listens to anybody who speaks its protocol.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "paceline/core/transport/fabric/fabric.h"

namespace paceline::ucx {

class UcxPort;

constexpr unsigned kFrames = 0;  // the id of our active messages

// The state that ports share. THREAD: reactor's driver only.
struct Worker {
  ucp_worker_h handle = nullptr;
  std::vector<std::byte> address;
  std::unordered_map<std::uint64_t, UcxPort*> ports;  // by the key that opens them
};

class UcxPort final : public transport::FabricPort {
 public:
  explicit UcxPort(Worker& worker);
  ~UcxPort() override;

  std::vector<std::byte> address() const override;
  Result<> connect(Bytes peers_address) override;
  bool is_connected() const override { return lane_->greeted && lane_->was_greeted; }
  void send(Bytes prefix, Bytes payload, std::uint64_t id) override;
  void fetch(std::unique_ptr<transport::FabricMessage> message, MutableBytes into) override;
  std::optional<transport::FabricEvent> next() override;

  // The worker calls it for each active message, with UCX's `data` of `bytes`, or its descriptor if
  // the payload is still with the peer. Returns whether the message keeps `data`.
  bool arrived(Bytes prefix, void* data, std::size_t bytes, bool is_here);

 private:
  struct Send;
  // UCX calls back until the last operation has ended, so the state that callbacks need outlives
  // the port.
  struct Lane {
    std::deque<transport::FabricEvent> events;
    std::size_t unfinished = 0;
    // UCX 1.13 aborts the process if a peer leaves while the two are still connecting. So each side
    // greets the other, by a message without a prefix that could be replied to, and neither leaves
    // before that.
    bool greeted = false, was_greeted = false;
    bool lost = false;

    void add(transport::FabricEvent event) { events.push_back(std::move(event)); }
    void fail(std::string_view doing, ucs_status_t status);
  };
  static void on_sent(void* request, ucs_status_t status, void* send);
  static void on_fetched(void* request, ucs_status_t status, std::size_t, void* lane);
  static void on_error(void* lane, ucp_ep_h, ucs_status_t status);
  bool progress_until_closed(ucs_status_ptr_t closing) const;

  Worker& worker_;
  const std::uint64_t key_;
  std::uint64_t peers_key_ = 0;
  ucp_ep_h endpoint_ = nullptr;
  std::unique_ptr<Lane> lane_;
};

}  // namespace paceline::ucx
