#include "paceline/core/base/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/base/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "paceline/core/base/check.h"

HWY_BEFORE_NAMESPACE();
namespace paceline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Of two NaNs the hardware keeps the first operand's payload, but the compiler is free to exchange the operands of a sum. So
// the right one is masked where the left one is NaN: the bits are then the same whatever the compiler does.
struct Sum {
  template <typename V>
  static V apply(V left, V right) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      return hn::Add(left, hn::IfThenZeroElse(hn::IsNaN(left), right));
    } else {
      return hn::Add(left, right);
    }
  }
};

// With NaN on either side the first NaN wins; of equal values (only zeros differ in bits) the sign decides.
template <bool kMin>
struct Extreme {
  template <typename V>
  static V apply(V left, V right) {
    using D = hn::DFromV<V>;
    using T = hn::TFromD<D>;
    if constexpr (hwy::IsFloat<T>()) {
      const auto smaller = hn::Lt(left, right);
      const auto larger = hn::Lt(right, left);
      const auto tie = kMin ? hn::Or(left, right) : hn::And(left, right);  // -0 | +0 = -0, -0 & +0 = +0
      const auto ordered = hn::IfThenElse(kMin ? smaller : larger, left,
                                          hn::IfThenElse(kMin ? larger : smaller, right, tie));
      const auto right_checked = hn::IfThenElse(hn::IsNaN(right), right, ordered);
      return hn::IfThenElse(hn::IsNaN(left), left, right_checked);
    } else {
      return kMin ? hn::Min(left, right) : hn::Max(left, right);
    }
  }
};

template <typename T, typename Op>
void reduce_typed(const T* left, const T* right, T* target, std::size_t count) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto a = Op::apply(hn::LoadU(d, left + i), hn::LoadU(d, right + i));
    const auto b = Op::apply(hn::LoadU(d, left + i + lanes), hn::LoadU(d, right + i + lanes));
    hn::StoreU(a, d, target + i);
    hn::StoreU(b, d, target + i + lanes);
  }
  const hn::CappedTag<T, 1> one;
  for (; i < count; ++i) {
    hn::StoreU(Op::apply(hn::LoadU(one, left + i), hn::LoadU(one, right + i)), one, target + i);
  }
}

template <typename T>
void reduce_op(ReduceOp op, const std::byte* left, const std::byte* right, std::byte* target, std::size_t bytes) {
  const auto* l = reinterpret_cast<const T*>(left);
  const auto* r = reinterpret_cast<const T*>(right);
  auto* t = reinterpret_cast<T*>(target);
  const std::size_t count = bytes / sizeof(T);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return reduce_typed<T, Sum>(l, r, t, count);
    case ReduceOp::min: return reduce_typed<T, Extreme<true>>(l, r, t, count);
    case ReduceOp::max: return reduce_typed<T, Extreme<false>>(l, r, t, count);
  }
}

void reduce_any(ReduceOp op, Dtype dtype, const std::byte* left, const std::byte* right, std::byte* target,
                std::size_t bytes) {
  switch (dtype) {
    case Dtype::f32: return reduce_op<float>(op, left, right, target, bytes);
    case Dtype::f64: return reduce_op<double>(op, left, right, target, bytes);
    case Dtype::i64: return reduce_op<std::int64_t>(op, left, right, target, bytes);
    case Dtype::u8: return reduce_op<std::uint8_t>(op, left, right, target, bytes);
    default: return;
  }
}

template <typename T>
void scale_typed(T* values, std::size_t count, T factor) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto f = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, values + i), f), d, values + i);
  for (; i < count; ++i) values[i] *= factor;
}

void scale_any(Dtype dtype, std::byte* values, std::size_t bytes, double factor) {
  if (dtype == Dtype::f32) {
    scale_typed(reinterpret_cast<float*>(values), bytes / sizeof(float), static_cast<float>(factor));
  } else {
    scale_typed(reinterpret_cast<double*>(values), bytes / sizeof(double), factor);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline {

HWY_EXPORT(reduce_any);
HWY_EXPORT(scale_any);

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::average: return "average";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
  }
  return "unknown";
}

bool is_known(ReduceOp op) { return name_of(op) != "unknown"; }

void reduce(ReduceOp op, Dtype dtype, Bytes left, Bytes right, MutableBytes target) {
  PACELINE_CHECK(can_reduce(dtype), "cannot reduce {}: use f64, f32, i64 or u8", name_of(dtype));
  PACELINE_CHECK(left.size() == right.size() && left.size() == target.size(),
                 "reduce of {} and {} bytes into {} bytes", left.size(), right.size(), target.size());
  HWY_DYNAMIC_DISPATCH(reduce_any)(op, dtype, left.data(), right.data(), target.data(), target.size());
}

void scale(Dtype dtype, MutableBytes values, double factor) {
  PACELINE_CHECK(dtype == Dtype::f32 || dtype == Dtype::f64, "cannot scale {}: averages need f32 or f64",
                 name_of(dtype));
  HWY_DYNAMIC_DISPATCH(scale_any)(dtype, values.data(), values.size(), factor);
}

}  // namespace paceline
#endif
