#include "paceline/torch/bridge/gradient_placement.h"

#include <c10/core/Allocator.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace paceline {
namespace {

using torch::autograd::Node;

std::atomic<int> births{0};  // live objects of GradientPlacement

// A gradient may pass views (the transposition of a linear layer's weight) on its way to the leaf.
constexpr int kViews = 4;

void collect(const Node& node, std::size_t bytes, std::vector<GradientPlacement*>& births_found) {
  for (const auto& hook : const_cast<Node&>(node).pre_hooks()) {
    auto* birth = dynamic_cast<GradientPlacement*>(hook.get());
    if (birth != nullptr && birth->may_become(bytes)) births_found.push_back(birth);
  }
}

std::vector<GradientPlacement*> births_behind(const Node& running, std::size_t bytes) {
  std::vector<GradientPlacement*> found;
  collect(running, bytes, found);
  for (const auto& edge : running.next_edges()) {
    const Node* next = edge.function.get();
    for (int views = 0; next != nullptr; ++views) {
      collect(*next, bytes, found);
      if (views == kViews || next->num_outputs() != 1) break;
      next = next->next_edge(0).function.get();
    }
  }
  return found;
}

// The memory of ours that was handed out, by address: libtorch may free through a function that
// gets nothing else (raw_deallocate, as the convolutions of oneDNN do). Like the allocator, it is
// never destroyed.
class Lent {
 public:
  static Lent& all() {
    static Lent* lent = new Lent;
    return *lent;
  }
  void add(std::shared_ptr<void> memory) {
    const std::lock_guard lock(mutex_);
    void* const address = memory.get();
    owners_[address] = std::move(memory);
  }
  // Null when the address was not ours.
  std::shared_ptr<void> remove(void* address) {
    const std::lock_guard lock(mutex_);
    const auto node = owners_.extract(address);
    return node ? node.mapped() : nullptr;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<void>> owners_;
};

std::atomic<c10::DeleterFnPtr> forwarded_deleter{nullptr};

void give_back(void* address) {
  if (Lent::all().remove(address) == nullptr) forwarded_deleter.load()(address);
}

c10::DataPtr data_of(std::shared_ptr<void> memory) {
  void* const address = memory.get();
  Lent::all().add(std::move(memory));
  return {address, address, &give_back, c10::kCPU};
}

class BirthAllocator final : public c10::Allocator {
 public:
  explicit BirthAllocator(c10::Allocator* forward) : forward_(forward) {
    forwarded_deleter = forward->raw_deleter();
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    if (births.load(std::memory_order_relaxed) == 0 || bytes == 0) return forward_->allocate(bytes);
    const auto running = torch::autograd::get_current_node();
    if (!running) return forward_->allocate(bytes);
    const auto candidates_for = births_behind(*running, bytes);
    c10::DataPtr data;
    for (GradientPlacement* birth : candidates_for) {
      if (auto memory = birth->place(); memory && !data) data = data_of(std::move(memory));
    }
    if (!data) data = forward_->allocate(bytes);
    for (GradientPlacement* birth : candidates_for) birth->allocated(data.get());
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return forward_->raw_deleter() == nullptr ? nullptr : &give_back;
  }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return data.get_deleter() != &give_back && forward_->is_simple_data_ptr(data);
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* const forward_;
};

// The allocator is never destroyed: tensors name it as theirs until the process ends.
void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    constexpr std::uint8_t kOverAllOthers = 255;
    c10::SetAllocator(c10::kCPU, new BirthAllocator(c10::GetAllocator(c10::kCPU)), kOverAllOthers);
  });
}

}  // namespace

GradientPlacement::GradientPlacement(at::Tensor leaf, std::function<std::shared_ptr<void>()> place)
    : leaf_(std::move(leaf)), place_(std::move(place)) {
  install();
  ++births;
}

GradientPlacement::~GradientPlacement() {
  --births;
}

bool GradientPlacement::may_become(std::size_t bytes) const {
  return bytes == leaf_.nbytes() && !leaf_.grad().defined();
}

std::shared_ptr<void> GradientPlacement::place() {
  if (const int now = current_backward(); now != backward_) {
    backward_ = now;
    candidates_.clear();
  }
  return chosen_ == static_cast<int>(candidates_.size()) ? place_() : nullptr;
}

void GradientPlacement::allocated(const void* address) {
  candidates_.push_back(address);
}

// Searches from the last one, because an earlier allocation at the same address has been freed.
void GradientPlacement::became(const void* address) {
  for (std::size_t i = candidates_.size(); i > 0; --i) {
    if (candidates_[i - 1] == address) {
      chosen_ = static_cast<int>(i) - 1;
      break;
    }
  }
  candidates_.clear();
}

}  // namespace paceline
