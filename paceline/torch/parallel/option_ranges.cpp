#include "paceline/torch/parallel/option_ranges.h"

#include <c10/util/StringUtil.h>

#include <cmath>
#include <string>

#include "paceline/core/base/base.h"

namespace paceline::parallel {
namespace {

void require(bool is_in_range, const char* option, const std::string& value, const char* range) {
  if (is_in_range) return;
  throw_misuse(c10::str("DataParallelOptions::", option, " is ", value, "; it is ", range));
}

}  // namespace

void require_in_range(const DataParallelOptions& options) {
  require(options.backward_passes_per_step >= 1, "backward_passes_per_step",
          c10::str(options.backward_passes_per_step), "a number of backward passes, at least 1");
  require(options.check_replicas_every >= 0, "check_replicas_every",
          c10::str(options.check_replicas_every), "a number of steps, or 0 for no check");
  require(std::isfinite(options.max_grad_norm) && options.max_grad_norm >= 0, "max_grad_norm",
          c10::str(options.max_grad_norm), "a norm above 0, or 0 for none");
  require(options.zero_stage >= 0 && options.zero_stage <= 3, "zero_stage",
          c10::str(options.zero_stage),
          "0, which shards nothing, 1 the optimizer's state, 2 gradients too, or 3 parameters too");
  require(options.zero_prefetch >= 0, "zero_prefetch", c10::str(options.zero_prefetch),
          "a number of units, 0 for none");
}

}  // namespace paceline::parallel
