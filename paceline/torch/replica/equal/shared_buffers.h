// SharedBuffers: the model's buffers, which all ranks have alike after each step.
//
// Short ones travel in one message. A long one, such as a mask or a table of positions, is mostly a
// constant: it travels in a step in which it has changed on some rank, and no rank knows that of
// another, so a message with a byte for each long buffer goes before.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/equal/coalesced.h"

namespace paceline::replica {

// THREAD: one. THROWS Error, from broadcast() and average(): what ended the communication.
class SharedBuffers {
 public:
  static constexpr std::size_t kLongBytes = std::size_t{64} << 10;

  // The buffers are equal on all ranks now, in number and shape for good.
  SharedBuffers(const std::vector<at::Tensor>& buffers, const Communicator& group);

  // All ranks end with the values of rank `root`.
  void broadcast(Communicator& group, int root);
  // Does what CoalescedTensors::average does, with all of them.
  void average(Communicator& group, double share, int root);

 private:
  // A long one, and how it was when all ranks had it alike.
  struct Long {
    at::Tensor tensor;
    std::uint64_t fingerprint = 0;
    std::uint32_t version = 0;
    bool is_known = false;  // the fingerprint is of those values
    int changes = 0;        // in a row
  };
  static void see(Long& one);
  static bool has_changed(const Long& one);

  std::vector<at::Tensor> all_;
  std::unique_ptr<CoalescedTensors> short_ones_;
  std::vector<Long> long_ones_;
  std::unique_ptr<CoalescedTensors> averaged_;  // all of them, made by the first average()
};

}  // namespace paceline::replica
