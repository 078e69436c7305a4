#include "paceline/torch/replica/equal_start.h"

#include <torch/torch.h>

#include <atomic>
#include <string>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/torch/replica/agreement.h"
#include "paceline/torch/replica/equal/coalesced.h"

namespace paceline::parallel {
namespace {

std::string name_of(BufferMode mode) {
  switch (mode) {
    case BufferMode::off: return "off";
    case BufferMode::broadcast: return "broadcast";
    case BufferMode::average: return "average";
  }
  return "unknown";
}

// Those that must be the same on all ranks.
std::vector<GivenOption> compared_options(const DataParallelOptions& options) {
  return {{"first_bucket_bytes", c10::str(options.first_bucket_bytes)},
          {"bucket_bytes", c10::str(options.bucket_bytes)},
          {"buffers", name_of(options.buffers)},
          {"static_order", options.static_order ? "true" : "false"},
          {"backward_passes_per_step", c10::str(options.backward_passes_per_step)},
          {"dropout_seed", c10::str(options.dropout_seed)},
          {"check_replicas_every", c10::str(options.check_replicas_every)},
          {"schedule", options.schedule},
          {"compression", options.compression},
          {"aggregate", options.aggregate},
          {"optimizer", options.optimizer ? "given" : "not given"},
          {"synchrony", options.synchrony},
          {"precision", options.precision},
          {"max_grad_norm", c10::str(options.max_grad_norm)},
          {"non_finite", options.non_finite},
          {"non_finite_limit", c10::str(options.non_finite_limit)},
          {"zero_stage", c10::str(options.zero_stage)},
          {"zero_prefetch", c10::str(options.zero_prefetch)}};
}

}  // namespace

// Rank 0 counts the trainings that it begins, so each one of a group has a number of its own.
std::uint64_t agreed_training(Communicator& group) {
  static std::atomic<std::int64_t> begun = 0;
  std::vector<std::int64_t> number = {group.rank() == 0 ? ++begun : 0};
  group.broadcast(buffer_of(number), 0).wait();
  return static_cast<std::uint64_t>(number[0]);
}

void equalise(const ModelParts& parts, Communicator& group, int root,
              const DataParallelOptions& options) {
  if (group.size() == 1) return;
  require_agreement(group, parts.description());
  require_same_settings(group, compared_options(options));
  broadcast_all(parts.all(), group, root);
}

}  // namespace paceline::parallel
