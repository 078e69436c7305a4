#include "paceline/torch/pipeline/drawing_from.h"

#include <ATen/CPUGeneratorImpl.h>

namespace paceline::pipeline {
namespace {

std::mutex& mutex() {
  static std::mutex only;  // as the generator is
  return only;
}

}  // namespace

DrawingFrom::DrawingFrom(std::uint64_t seed)
    : lock_(mutex()), generator_(at::detail::getDefaultCPUGenerator()) {
  const std::lock_guard guard(generator_.mutex());
  before_ = generator_.get_state();
  generator_.set_current_seed(seed);
}

DrawingFrom::~DrawingFrom() {
  const std::lock_guard guard(generator_.mutex());
  generator_.set_state(before_);
}

}  // namespace paceline::pipeline
