#include "paceline/torch/bridge/gradient_hook.h"

#include <c10/core/Allocator.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "paceline/core/base/result.h"
#include "paceline/torch/bridge/tensors.h"

namespace paceline {
namespace {

using torch::autograd::variable_list;

// `grad` is a detached view of `gradient`, the tensor that arrived, which autograd keeps for the
// post-hooks; `gradient` itself may be a view of an operator's result.
bool is_held_elsewhere(const at::Tensor& gradient, const at::Tensor& grad) {
  if (grad.layout() != at::kStrided || !grad.is_alias_of(gradient)) return grad.use_count() > 1;
  const bool view = gradient.is_view();
  return grad.use_count() > 1 || gradient.use_count() > 1 ||
         (view && gradient._base().use_count() > 1) ||
         grad.storage().use_count() > (view ? 3U : 2U);
}

class Before final : public torch::autograd::FunctionPreHook {
 public:
  explicit Before(std::shared_ptr<const GradientEvents> events) : events_(std::move(events)) {}
  variable_list operator()(const variable_list& gradients) override {
    if (gradients.empty() || !gradients[0].defined()) return gradients;
    if (!events_->arriving()) return variable_list(gradients.size());
    const double factor = events_->factor ? events_->factor() : 1;
    if (factor == 1) return gradients;
    return {gradients[0] * factor};
  }

 private:
  std::shared_ptr<const GradientEvents> events_;
};

class After final : public torch::autograd::FunctionPostHook {
 public:
  After(std::shared_ptr<const GradientEvents> events, at::Tensor leaf, GradientPlacement* birth)
      : events_(std::move(events)), leaf_(std::move(leaf)), placement_(birth) {}
  variable_list operator()(const variable_list& outputs, const variable_list& gradients) override {
    if (gradients.empty() || !gradients[0].defined()) return outputs;
    const at::Tensor& grad = leaf_.grad();
    if (placement_ != nullptr && grad.layout() == at::kStrided)
      placement_->became(grad.const_data_ptr());
    events_->accumulated(is_held_elsewhere(gradients[0], grad));
    return outputs;
  }

 private:
  std::shared_ptr<const GradientEvents> events_;
  at::Tensor leaf_;
  GradientPlacement* placement_;  // a hook of the same node; null: there is none
};

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
class LentMemory {
 public:
  static LentMemory& all() {
    static LentMemory* lent = new LentMemory;
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
  if (LentMemory::all().remove(address) == nullptr) forwarded_deleter.load()(address);
}

c10::DataPtr data_of(std::shared_ptr<void> memory) {
  void* const address = memory.get();
  LentMemory::all().add(std::move(memory));
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

GradientHook::GradientHook(const at::Tensor& leaf, GradientEvents events) {
  if (!leaf.defined() || !leaf.is_leaf() || !leaf.requires_grad()) {
    throw_misuse(
        c10::str("gradients of ", describe(leaf),
                 " cannot be watched: it must be a leaf of the graph that requires a gradient"));
  }
  accumulator_ = torch::autograd::impl::grad_accumulator(leaf);
  events_ = std::make_shared<const GradientEvents>(std::move(events));
  auto before = std::make_unique<Before>(events_);
  before_ = before.get();
  accumulator_->add_pre_hook(std::move(before));
  std::unique_ptr<GradientPlacement> birth;
  if (events_->gradient_memory)
    birth = std::make_unique<GradientPlacement>(leaf, events_->gradient_memory);
  placement_ = birth.get();
  after_ = accumulator_->add_post_hook(std::make_unique<After>(events_, leaf, birth.get()));
  if (birth) accumulator_->add_pre_hook(std::move(birth));
}

GradientHook::~GradientHook() {
  if (!accumulator_) return;  // moved from
  auto& before = accumulator_->pre_hooks();
  before.erase(std::remove_if(before.begin(), before.end(),
                              [&](const auto& hook) {
                                return hook.get() == before_ || hook.get() == placement_;
                              }),
               before.end());
  accumulator_->del_post_hook(after_);
}

bool GradientHook::is_in_force(const at::Tensor& leaf) const {
  return torch::autograd::impl::try_get_grad_accumulator(leaf) == accumulator_;
}

int current_backward() {
  return torch::autograd::get_current_graph_task_id();
}

bool is_nested_backward() {
  using torch::autograd::GraphTask;
  const auto* member = torch::autograd::get_current_graph_task_exec_info();
  if (member == nullptr) return false;
    // libtorch hands out no task, only members of the present one.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  constexpr std::size_t kOffset = offsetof(GraphTask, exec_info_);
#pragma GCC diagnostic pop
  const auto* task =
      reinterpret_cast<const GraphTask*>(reinterpret_cast<const std::byte*>(member) - kOffset);
  return task->reentrant_depth_ > 0;
}

bool backward_builds_graph() {
  return at::GradMode::is_enabled();
}

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
