#include "tests/support/mortal_link.h"

#include <algorithm>

#include "tests/support/test_link.h"

namespace paceline::test {

using transport::FrameHeader;

class MortalLink final : public TestLink {
 public:
  MortalLink(std::unique_ptr<Link> inner, Life& life) : TestLink(std::move(inner)), life_(life) {
    life_.links_.push_back(this);
  }
  ~MortalLink() override { std::erase(life_.links_, this); }

  void end() { inner_.reset(); }

  void send(const FrameHeader& header, Bytes payload, transport::SendListener* listener,
            std::uint64_t cookie) override {
    if (life_.may_send()) inner_->send(header, payload, listener, cookie);
  }
  bool begin_use() override { return reached() && inner_->begin_use(); }
  bool end_use() override { return inner_ && inner_->end_use() && reached(); }
  void release(const FrameHeader& reference) override {
    if (life_.may_send()) inner_->release(reference);
  }
  transport::LinkProgress progress() const override { return {}; }

 private:
  bool reached() const override { return !life_.dying_; }

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
  options.through = [mortal, &life](int rank, int, std::unique_ptr<transport::Link> link) {
    if (rank != mortal) return link;
    return std::unique_ptr<transport::Link>(std::make_unique<MortalLink>(std::move(link), life));
  };
  return options;
}

}  // namespace paceline::test
