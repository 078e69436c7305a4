#include "paceline/torch/replica/grads/finite_watch.h"

#include <torch/torch.h>

#include <algorithm>

#include "paceline/core/base/base.h"

namespace paceline::replica {
namespace {

// Numbers whose exponents are all ones are infinite or NaN.
template <typename Bits>
bool are_finite(const at::Tensor& values, Bits exponent) {
  constexpr std::int64_t kBlock = 4096;
  const auto* const bits = static_cast<const Bits*>(values.const_data_ptr());
  for (std::int64_t begin = 0; begin < values.numel(); begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, values.numel());
    bool any = false;
    for (std::int64_t i = begin; i < end; ++i) any |= (bits[i] & exponent) == exponent;
    if (any) return false;
  }
  return true;
}

}  // namespace

bool is_finite(const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  const at::Tensor values =
      (gradient.layout() == at::kSparse ? gradient._values() : gradient).contiguous();
  if (!values.is_cpu()) return values.isfinite().all().item<bool>();
  switch (values.scalar_type()) {
    case at::kDouble: return are_finite<std::uint64_t>(values, 0x7ff0000000000000U);
    case at::kFloat: return are_finite<std::uint32_t>(values, 0x7f800000U);
    case at::kBFloat16: return are_finite<std::uint16_t>(values, 0x7f80U);
    case at::kHalf: return are_finite<std::uint16_t>(values, 0x7c00U);
    default: return values.isfinite().all().item<bool>();
  }
}

FiniteWatch::Policy FiniteWatch::policy_of(const std::string& text) {
  if (text.empty()) return Policy::none;
  if (text == "throw") return Policy::error;
  if (text == "skip") return Policy::skip;
  throw_misuse(c10::str("DataParallelOptions::non_finite is \"", text,
                        "\": it is \"throw\", which ends the run at a gradient that is NaN or "
                        "infinite, \"skip\", which leaves such steps out, or empty"));
}

FiniteWatch::FiniteWatch(const std::string& policy, int limit)
    : policy_(policy_of(policy)), limit_(limit) {
  if (limit_ > 0) return;
  throw_misuse(c10::str("DataParallelOptions::non_finite_limit is ", limit_,
                        ": it is the number of steps in a row, at least 1, that may be left out "
                        "because a gradient is not finite"));
}

void FiniteWatch::counted() {
  first_.reset();
  in_a_row_ = 0;
}

void FiniteWatch::left_out() {
  first_.reset();
  ++skipped_;
  ++in_a_row_;
}

}  // namespace paceline::replica
