#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <mutex>

#include "paceline/core/base/base.h"
#include "paceline/torch/checkpoint/checkpoint_part.h"

namespace paceline::checkpointing {
namespace {

constexpr const char* kCpuStream = "cpu";

class RandomPart final : public CheckpointPart {
 public:
  ItemState state() override {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    return {.tensors = {{kCpuStream, generator.get_state(), Held::by_each}}};
  }

  void check(const SavedItem& saved) override {
    saved.require(kCpuStream, Held::by_each, state().tensors.front().tensor);
    saved.require_no_other({kCpuStream});
  }

  // A rank that nobody was draws numbers that no other rank draws.
  void load(const SavedItem& saved) override {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    if (!saved.has_rank()) {
      generator.set_current_seed(mix(saved.step(), static_cast<std::uint64_t>(saved.rank())));
      return;
    }
    at::Tensor stream = generator.get_state();
    saved.read_into(*saved.find(kCpuStream, Held::by_each), stream);
    generator.set_state(stream);
  }
};

}  // namespace

PartPtr random_part() {
  return std::make_unique<RandomPart>();
}

}  // namespace paceline::checkpointing
