// TestLink: a link that hands its calls on to another one, or that carries nothing; tests override
// what they are about. The inner link is not asked what Link answers by itself (offered, withholds,
// unanswered).
#pragma once

#include <memory>
#include <utility>

#include "paceline/core/transport/link/link.h"

namespace paceline::test {

// THREAD: as transport::Link. Without an inner link nothing arrives, no memory is shared, and
// everything counts as flushed.
class TestLink : public transport::Link {
 public:
  explicit TestLink(int peer) : peer_(peer) {}
  explicit TestLink(std::unique_ptr<transport::Link> inner)
      : inner_(std::move(inner)), peer_(inner_->peer()) {}

  int peer() const final { return peer_; }
  void send(const transport::FrameHeader& header, Bytes payload, transport::SendListener* listener,
            std::uint64_t cookie) override {
    if (reached()) inner_->send(header, payload, listener, cookie);
  }
  MutableBytes window(transport::Remote target, std::size_t bytes) override {
    return reached() ? inner_->window(target, bytes) : MutableBytes();
  }
  std::shared_ptr<const transport::SharedMemory> memory(std::uint64_t segment) override {
    return reached() ? inner_->memory(segment) : nullptr;
  }
  bool begin_use() override { return !reached() || inner_->begin_use(); }
  bool end_use() override { return !reached() || inner_->end_use(); }
  void release(const transport::FrameHeader& reference) override {
    if (reached()) inner_->release(reference);
  }
  std::optional<transport::Remote> remote_of(Bytes own) const override {
    return reached() ? inner_->remote_of(own) : std::nullopt;
  }
  void offer(std::uint64_t segment,
             std::shared_ptr<const transport::SharedMemory> memory) override {
    if (reached()) inner_->offer(segment, std::move(memory));
  }
  void withdraw(std::uint64_t segment) override {
    if (reached()) inner_->withdraw(segment);
  }
  transport::LinkProgress progress() const override {
    return reached() ? inner_->progress() : transport::LinkProgress();
  }
  void abandon() override {
    if (reached()) inner_->abandon();
  }
  bool flushed() const override { return !reached() || inner_->flushed(); }

 protected:
  // Whether the inner link is there and gets the calls.
  virtual bool reached() const { return inner_ != nullptr; }

  std::unique_ptr<transport::Link> inner_;

 private:
  const int peer_;
};

}  // namespace paceline::test
