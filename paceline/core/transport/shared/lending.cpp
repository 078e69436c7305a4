#include "paceline/core/transport/shared/lending.h"

#include <thread>

namespace paceline::transport {
namespace {

RingPair& pair_in(MutableBytes region) {
  return *reinterpret_cast<RingPair*>(region.data());
}

}  // namespace

Lending::Lending(MutableBytes region, int side, bool in_one_process)
    : own_(pair_in(region).sides[side]),
      peer_(pair_in(region).sides[1 - side]),
      in_one_process_(in_one_process) {}

bool Lending::begin_use() {
  if (!in_one_process_) return peer_.failed.load(std::memory_order_acquire) == 0;
  // It is said before it is asked, and fail() does so the other way round: one sees the other.
  own_.uses.store(++uses_, std::memory_order_seq_cst);
  if (peer_.failed.load(std::memory_order_seq_cst) == 0) return true;
  end_use();
  return false;
}

bool Lending::end_use() {
  if (in_one_process_) {
    own_.uses.store(--uses_, std::memory_order_release);
    return true;  // the peer has waited
  }
  std::atomic_thread_fence(std::memory_order_acquire);  // what was read was read before
  return peer_.failed.load(std::memory_order_relaxed) == 0;
}

void Lending::fail() {
  own_.failed.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the memory is used again
  if (!in_one_process_) return;
  while (peer_.uses.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
}

}  // namespace paceline::transport
