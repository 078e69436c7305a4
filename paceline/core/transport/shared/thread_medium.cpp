#include <atomic>
#include <map>
#include <mutex>

#include "paceline/core/transport/shared/ring.h"
#include "paceline/core/transport/shared/shared_medium.h"

namespace paceline::transport {
namespace {

// The state that both ends see. A reactor is reached only under the mutex, so that it is not woken
// after its end.
struct Common {
  explicit Common(std::size_t bytes)
      : region(new (std::align_val_t(64)) std::byte[bytes]()), size(bytes) {}
  ~Common() { ::operator delete[](region, std::align_val_t(64)); }

  std::byte* region;
  std::size_t size;
  std::mutex mutex;
  struct Side {
    Reactor* reactor = nullptr;
    std::atomic<bool> closed = false;
    std::map<std::uint64_t, std::shared_ptr<const SharedMemory>> segments;
  } sides[2];
};

class ThreadMedium final : public SharedMedium {
 public:
  ThreadMedium(std::shared_ptr<Common> common, int side)
      : common_(std::move(common)), side_(side) {}

  ~ThreadMedium() override {
    const std::lock_guard lock(common_->mutex);
    own().reactor = nullptr;
    own().closed = true;
    if (other().reactor != nullptr) other().reactor->poller().wake();
  }

  MutableBytes region() override { return {common_->region, common_->size}; }
  int side() const override { return side_; }
  bool in_one_process() const override { return true; }

  void ring_bell() override {
    const std::lock_guard lock(common_->mutex);
    if (other().reactor != nullptr) other().reactor->poller().wake();
  }

  Offering offer(std::uint64_t segment, std::shared_ptr<const SharedMemory> memory) override {
    const std::lock_guard lock(common_->mutex);
    // Kept until the peer has heard of its withdrawal.
    own().segments.insert_or_assign(segment, std::move(memory));
    return Offering::had;
  }

  void withdraw(std::uint64_t segment) override {
    const std::lock_guard lock(common_->mutex);
    other().segments.erase(segment);
  }

  std::shared_ptr<const SharedMemory> memory(std::uint64_t segment) override {
    const std::lock_guard lock(common_->mutex);
    const auto found = other().segments.find(segment);
    return found == other().segments.end() ? nullptr : found->second;
  }

  void watch(Reactor& reactor, HearOffer, std::function<void()>) override {
    const std::lock_guard lock(common_->mutex);
    own().reactor = &reactor;
  }

  bool peer_closed() const override { return common_->sides[1 - side_].closed; }

 private:
  Common::Side& own() { return common_->sides[side_]; }
  Common::Side& other() { return common_->sides[1 - side_]; }

  std::shared_ptr<Common> common_;
  const int side_;
};

}  // namespace

std::pair<std::unique_ptr<SharedMedium>, std::unique_ptr<SharedMedium>> make_thread_mediums(
    std::size_t ring_bytes) {
  auto common = std::make_shared<Common>(ring_region_bytes(ring_bytes));
  return {std::make_unique<ThreadMedium>(common, 0), std::make_unique<ThreadMedium>(common, 1)};
}

}  // namespace paceline::transport
