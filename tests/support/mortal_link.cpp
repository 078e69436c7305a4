#include "tests/support/mortal_link.h"

#include <algorithm>

namespace paceline::test {

using transport::FrameHeader;

class MortalLink final : public transport::Link {
 public:
  MortalLink(int peer, std::unique_ptr<Link> inner, Life& life)
      : peer_(peer), inner_(std::move(inner)), life_(life) {
    life_.links_.push_back(this);
  }
  ~MortalLink() override { std::erase(life_.links_, this); }

  void end() { inner_.reset(); }

  int peer() const override { return peer_; }
  void send(const FrameHeader& header, Bytes payload, transport::SendListener* listener,
            std::uint64_t cookie) override {
    if (life_.may_send()) inner_->send(header, payload, listener, cookie);
  }
  MutableBytes window(transport::Remote target, std::size_t bytes) override {
    return alive() ? inner_->window(target, bytes) : MutableBytes();
  }
  std::shared_ptr<const transport::SharedMemory> memory(std::uint64_t segment) override {
    return alive() ? inner_->memory(segment) : nullptr;
  }
  bool begin_use() override { return alive() && inner_->begin_use(); }
  bool end_use() override { return inner_ && inner_->end_use() && alive(); }
  void release(const FrameHeader& reference) override {
    if (life_.may_send()) inner_->release(reference);
  }
  std::optional<transport::Remote> remote_of(Bytes own) const override {
    return alive() ? inner_->remote_of(own) : std::nullopt;
  }
  void offer(std::uint64_t segment,
             std::shared_ptr<const transport::SharedMemory> memory) override {
    if (alive()) inner_->offer(segment, std::move(memory));
  }
  void withdraw(std::uint64_t segment) override {
    if (alive()) inner_->withdraw(segment);
  }
  void abandon() override {
    if (alive()) inner_->abandon();
  }
  bool flushed() const override { return !alive() || inner_->flushed(); }

 private:
  bool alive() const { return !life_.dying_; }

  const int peer_;
  std::unique_ptr<Link> inner_;
  Life& life_;
};

void Life::lives_for(long frames, Job& job) {
  const auto reactor = job.impl().reactor;
  reactor->run([&] {
    reactor_ = reactor;
    left_ = frames;
    sent_ = 0;
  });
}

void Life::end(Job& job) {
  const auto reactor = job.impl().reactor;
  reactor->run([&] {
    reactor_ = reactor;
    die();
  });
  reactor->drive_until([this] { return over_.load(); }, Deadline::never());
}

void Life::end_with(const Work& work, Job& job) {
  const auto done = [&] { return work.done() || over_; };
  job.impl().reactor->drive_until(done, Deadline::never());
  end(job);
}

bool Life::may_send() {
  if (dying_) return false;
  if (left_ == 0) {
    die();
    return false;
  }
  if (left_ > 0) --left_;
  ++sent_;
  return true;
}

// The links end when the driver is out of their methods.
void Life::die() {
  if (std::exchange(dying_, true)) return;
  reactor_->post([this] {
    for (MortalLink* link : links_) link->end();
    over_ = true;
    reactor_->note_completion();
  });
}

LocalWorldOptions with_mortal_rank(LocalWorldOptions options, int mortal, Life& life) {
  options.through = [mortal, &life](int rank, int peer, std::unique_ptr<transport::Link> link) {
    if (rank != mortal) return link;
    return std::unique_ptr<transport::Link>(
        std::make_unique<MortalLink>(peer, std::move(link), life));
  };
  return options;
}

}  // namespace paceline::test
