#include "paceline/core/base/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/base/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>

#include "paceline/core/base/check.h"
#include "paceline/core/base/half.h"

HWY_BEFORE_NAMESPACE();
namespace paceline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The hardware keeps the first of two NaNs' payloads, but the compiler is free to exchange the
// operands of a sum. So the right one is masked if the left one is NaN: the bits are then the same
// in either order.
template <typename V>
V masked_by(V left, V right) {
  return hn::IfThenZeroElse(hn::IsNaN(left), right);
}

struct Sum {
  template <typename V>
  static V apply(V left, V right) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      return hn::Add(left, masked_by(left, right));
    } else {
      return hn::Add(left, right);
    }
  }
};

struct Product {
  template <typename V>
  static V apply(V left, V right) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      return hn::Mul(left, masked_by(left, right));
    } else {
      return hn::Mul(left, right);
    }
  }
};

struct And {
  template <typename V>
  static V apply(V left, V right) {
    return hn::And(left, right);
  }
};

struct Or {
  template <typename V>
  static V apply(V left, V right) {
    return hn::Or(left, right);
  }
};

struct Xor {
  template <typename V>
  static V apply(V left, V right) {
    return hn::Xor(left, right);
  }
};

// Combines bytes that are true or false; the result is 0 or 1.
template <typename Bits>
struct Boolean {
  template <typename V>
  static V apply(V left, V right) {
    const hn::DFromV<V> d;
    const auto one = hn::Set(d, 1), zero = hn::Zero(d);
    const auto truth = [&](V v) { return hn::IfThenElse(hn::Eq(v, zero), zero, one); };
    return Bits::apply(truth(left), truth(right));
  }
};

// If either side is NaN, the first NaN wins. Of equal values (only zeros differ in bits) the sign
// decides.
template <bool kMin>
struct Extreme {
  template <typename V>
  static V apply(V left, V right) {
    using D = hn::DFromV<V>;
    using T = hn::TFromD<D>;
    if constexpr (hwy::IsFloat<T>()) {
      const auto smaller = hn::Lt(left, right);
      const auto larger = hn::Lt(right, left);
      // -0 | +0 = -0, -0 & +0 = +0.
      const auto tie = kMin ? hn::Or(left, right) : hn::And(left, right);
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
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(Op::apply(hn::LoadU(d, left + i), hn::LoadU(d, right + i)), d, target + i);
  const hn::CappedTag<T, 1> one;
  for (; i < count; ++i) {
    hn::StoreU(Op::apply(hn::LoadU(one, left + i), hn::LoadU(one, right + i)), one, target + i);
  }
}

// Highway has no products of bytes; the compiler makes its own vectors of this loop.
template <typename T>
void multiply(const T* left, const T* right, T* target, std::size_t count) {
  if constexpr (sizeof(T) == 1) {
    for (std::size_t i = 0; i < count; ++i) target[i] = static_cast<T>(left[i] * right[i]);
  } else {
    reduce_typed<T, Product>(left, right, target, count);
  }
}

template <typename T>
void reduce_op(ReduceOp op, const std::byte* left, const std::byte* right, std::byte* target,
               std::size_t bytes) {
  const auto* l = reinterpret_cast<const T*>(left);
  const auto* r = reinterpret_cast<const T*>(right);
  auto* t = reinterpret_cast<T*>(target);
  const std::size_t count = bytes / sizeof(T);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return reduce_typed<T, Sum>(l, r, t, count);
    case ReduceOp::min: return reduce_typed<T, Extreme<true>>(l, r, t, count);
    case ReduceOp::max: return reduce_typed<T, Extreme<false>>(l, r, t, count);
    case ReduceOp::product: return multiply<T>(l, r, t, count);
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == ReduceOp::band) reduce_typed<T, And>(l, r, t, count);
    if (op == ReduceOp::bor) reduce_typed<T, Or>(l, r, t, count);
    if (op == ReduceOp::bxor) reduce_typed<T, Xor>(l, r, t, count);
  }
}

void reduce_booleans(ReduceOp op, const std::byte* left, const std::byte* right, std::byte* target,
                     std::size_t count) {
  const auto* l = reinterpret_cast<const std::uint8_t*>(left);
  const auto* r = reinterpret_cast<const std::uint8_t*>(right);
  auto* t = reinterpret_cast<std::uint8_t*>(target);
  switch (op) {
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::band: return reduce_typed<std::uint8_t, Boolean<And>>(l, r, t, count);
    case ReduceOp::bxor: return reduce_typed<std::uint8_t, Boolean<Xor>>(l, r, t, count);
    default: return reduce_typed<std::uint8_t, Boolean<Or>>(l, r, t, count);
  }
}

void reduce_any(ReduceOp op, Dtype dtype, const std::byte* left, const std::byte* right,
                std::byte* target, std::size_t bytes) {
  switch (dtype) {
    case Dtype::f32: return reduce_op<float>(op, left, right, target, bytes);
    case Dtype::f64: return reduce_op<double>(op, left, right, target, bytes);
    case Dtype::i64: return reduce_op<std::int64_t>(op, left, right, target, bytes);
    case Dtype::i32: return reduce_op<std::int32_t>(op, left, right, target, bytes);
    case Dtype::i16: return reduce_op<std::int16_t>(op, left, right, target, bytes);
    case Dtype::i8: return reduce_op<std::int8_t>(op, left, right, target, bytes);
    case Dtype::u8: return reduce_op<std::uint8_t>(op, left, right, target, bytes);
    case Dtype::boolean: return reduce_booleans(op, left, right, target, bytes);
    case Dtype::f16:
    case Dtype::bf16: return;  // accumulate() reduces these in f32
  }
}

template <typename T>
void scale_typed(T* values, std::size_t count, T factor) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto f = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, values + i), f), d, values + i);
  for (; i < count; ++i) values[i] *= factor;
}

void scale_any(Dtype dtype, std::byte* values, std::size_t bytes, double factor) {
  if (dtype == Dtype::f32) {
    scale_typed(reinterpret_cast<float*>(values), bytes / sizeof(float),
                static_cast<float>(factor));
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

namespace {

// The number of values converted at a time: three blocks of them stay in the nearest cache.
constexpr std::size_t kBlock = 1024;
using Block = std::array<float, kBlock>;

// Returns values `at`.. of `buffer` as f32: in place, or converted into `block`.
const float* as_floats(ConstBuffer buffer, std::size_t at, std::size_t count, Block& block) {
  if (buffer.dtype == Dtype::f32) return reinterpret_cast<const float*>(buffer.data) + at;
  widen(buffer.dtype, buffer.bytes().subspan(2 * at, 2 * count), std::span(block).first(count));
  return block.data();
}

}  // namespace

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::average: return "average";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::product: return "product";
    case ReduceOp::band: return "band";
    case ReduceOp::bor: return "bor";
    case ReduceOp::bxor: return "bxor";
  }
  return "unknown";
}

bool is_known(ReduceOp op) {
  return ReduceOp::sum <= op && op <= ReduceOp::bxor;
}

bool can_reduce(ReduceOp op, Dtype dtype) {
  if (!is_known(op) || !is_known(dtype)) return false;
  if (op == ReduceOp::average) return is_floating(dtype);
  const bool is_bitwise = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
  return !is_bitwise || !is_floating(dtype);
}

bool rounds(ReduceOp op, Dtype dtype) {
  return is_floating(dtype) &&
         (op == ReduceOp::sum || op == ReduceOp::average || op == ReduceOp::product);
}

void reduce(ReduceOp op, Dtype dtype, Bytes left, Bytes right, MutableBytes target) {
  PACELINE_CHECK(can_reduce(op, dtype), "there is no {} of {}", name_of(op), name_of(dtype));
  PACELINE_CHECK(left.size() == right.size() && left.size() == target.size(),
                 "reduce of {} and {} bytes into {} bytes", left.size(), right.size(),
                 target.size());
  if (is_half(dtype)) {
    const std::size_t count = target.size() / 2;
    return accumulate(op, {left.data(), count, dtype}, {right.data(), count, dtype},
                      {target.data(), count, dtype}, 1);
  }
  HWY_DYNAMIC_DISPATCH(reduce_any)
  (op, dtype, left.data(), right.data(), target.data(), target.size());
}

void accumulate(ReduceOp op, ConstBuffer left, ConstBuffer right, Buffer target, double factor) {
  const auto fits = [&](ConstBuffer b) {
    return b.count == target.count && (b.dtype == Dtype::f32 || is_half(b.dtype));
  };
  PACELINE_CHECK(can_reduce(op, Dtype::f32) && fits(left) && fits(right) && fits(target),
                 "{} of {}[{}] and {}[{}] into {}[{}]", name_of(op), name_of(left.dtype),
                 left.count, name_of(right.dtype), right.count, name_of(target.dtype),
                 target.count);
  Block left_block, right_block, target_block;
  // If the target may be wider than an operand that it begins with, blocks go from the end, so that
  // writes lie behind the values still to be read. If it may be narrower, they go from the
  // beginning, for the same reason.
  const std::size_t blocks = (target.count + kBlock - 1) / kBlock;
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t at = (target.dtype == Dtype::f32 ? blocks - 1 - i : i) * kBlock;
    const std::size_t count = std::min(kBlock, target.count - at);
    const float* l = as_floats(left, at, count, left_block);
    const float* r = as_floats(right, at, count, right_block);
    const bool direct = target.dtype == Dtype::f32;
    float* t = direct ? reinterpret_cast<float*>(target.data) + at : target_block.data();
    const auto values = std::as_writable_bytes(std::span(t, count));
    HWY_DYNAMIC_DISPATCH(reduce_any)
    (op, Dtype::f32, reinterpret_cast<const std::byte*>(l), reinterpret_cast<const std::byte*>(r),
     values.data(), values.size());
    if (factor != 1.0)
      HWY_DYNAMIC_DISPATCH(scale_any)(Dtype::f32, values.data(), values.size(), factor);
    if (!direct) narrow(target.dtype, {t, count}, target.bytes().subspan(2 * at, 2 * count));
  }
}

void scale(Dtype dtype, MutableBytes values, double factor) {
  PACELINE_CHECK(is_floating(dtype), "cannot scale {}: averages are of floating-point types",
                 name_of(dtype));
  if (!is_half(dtype))
    return HWY_DYNAMIC_DISPATCH(scale_any)(dtype, values.data(), values.size(), factor);
  Block block;
  const std::size_t all = values.size() / 2;
  for (std::size_t at = 0; at < all; at += kBlock) {
    const std::size_t count = std::min(kBlock, all - at);
    const MutableBytes halves = values.subspan(2 * at, 2 * count);
    const std::span<float> floats = std::span(block).first(count);
    widen(dtype, halves, floats);
    HWY_DYNAMIC_DISPATCH(scale_any)
    (Dtype::f32, std::as_writable_bytes(floats).data(), 4 * count, factor);
    narrow(dtype, floats, halves);
  }
}

}  // namespace paceline
#endif
