// The arithmetic of a Reduction (device.h), element by element, with the bits of base/reduce.h. It
// is compiled for devices (plugins/cuda/kernels.cu), and for hosts by the double and the tests. So
// all here is constexpr, which compilers for devices take as code for both.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace paceline::device {

// --- 16-bit types (base/half.h) ------------------------------------------------------------------

struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
// A byte that is true or false.
struct Boolean {
  std::uint8_t byte;
};

constexpr std::uint32_t kInfinityBits = 0x7f800000;

constexpr float as_float(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
constexpr std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}

constexpr float widened(BFloat16 value) {
  return as_float(static_cast<std::uint32_t>(value.bits) << 16);
}

constexpr float widened(Float16 value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16, rest = (value.bits & 0x7fffu) << 13;
  if (rest >= 31u << 23) return as_float((rest + ((255u - 31u) << 23)) | sign);
  if (rest >= 1u << 23) return as_float((rest + ((127u - 15u) << 23)) | sign);
  const std::uint32_t smallest = (127u - 14u) << 23;
  return as_float(bits_of(as_float(rest + smallest) - as_float(smallest)) | sign);
}

constexpr BFloat16 narrowed(float value, BFloat16 /*type*/) {
  const std::uint32_t bits = bits_of(value), high = bits >> 16;
  if ((bits & 0x7fffffffu) > kInfinityBits) return {static_cast<std::uint16_t>(high | 0x40u)};
  return {static_cast<std::uint16_t>((bits + (high & 1u) + 0x7fffu) >> 16)};
}

constexpr Float16 narrowed(float value, Float16 /*type*/) {
  const std::uint32_t bits = bits_of(value), rest = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
  std::uint32_t half = 0x7c00;
  if (rest > kInfinityBits) {
    half = (rest >> 13 & 0x3ffu) | 0x7e00u;
  } else if (rest < (127u - 14u) << 23) {  // the addition pushes out the digits that are too many
    const std::uint32_t one_half = 126u << 23;
    half = bits_of(as_float(rest) + as_float(one_half)) - one_half;
  } else if (rest < (127u + 16u) << 23) {
    half = (rest + 0xfffu - ((127u - 15u) << 23) + (rest >> 13 & 1u)) >> 13;
  }
  return {static_cast<std::uint16_t>(half | sign)};
}

// --- one element ---------------------------------------------------------------------------------

// The type in which partial results are held.
template <typename T>
struct WideOf {
  using Type = T;
};
template <>
struct WideOf<Float16> {
  using Type = float;
};
template <>
struct WideOf<BFloat16> {
  using Type = float;
};
template <typename T>
using Wide = typename WideOf<T>::Type;

template <typename T>
constexpr Wide<T> loaded(T value) {
  if constexpr (std::is_same_v<Wide<T>, T>) return value;
  else return widened(value);
}
template <typename T>
constexpr T stored(Wide<T> value) {
  if constexpr (std::is_same_v<Wide<T>, T>) return value;
  else return narrowed(value, T{});
}

enum class Step : std::uint8_t { sum, min, max, product, band, bor, bxor };

template <typename T>
constexpr bool is_nan(T value) {
  return value != value;
}
template <typename T>
constexpr auto to_bits(T value) {
  if constexpr (sizeof(T) == 4) return __builtin_bit_cast(std::uint32_t, value);
  else return __builtin_bit_cast(std::uint64_t, value);
}
template <typename T>
constexpr T from_bits(decltype(to_bits(T{})) bits) {
  return __builtin_bit_cast(T, bits);
}
// A NaN that computing makes is quiet. One that it makes of numbers has a sign on x86, and none on
// other processors.
template <typename T>
constexpr T quiet(T nan) {
  using Bits = decltype(to_bits(nan));
  constexpr int kMantissa = std::numeric_limits<T>::digits - 1;
  return from_bits<T>(static_cast<Bits>(to_bits(nan) | Bits{1} << (kMantissa - 1)));
}
template <typename T>
constexpr T made_nan() {
  using Bits = decltype(to_bits(T{}));
  constexpr int kMantissa = std::numeric_limits<T>::digits - 1;
  return from_bits<T>(static_cast<Bits>(~Bits{0} << (kMantissa - 1)));
}
template <typename T>
constexpr T computed(T left, T right, T result) {
  if (!is_nan(result)) return result;
  if (is_nan(left)) return quiet(left);
  return is_nan(right) ? quiet(right) : made_nan<T>();
}

template <typename T>
constexpr T extreme(bool least, T left, T right) {
  if constexpr (std::is_floating_point_v<T>) {
    if (is_nan(left)) return left;
    if (is_nan(right)) return right;
    if (left == right)  // of zeros the sign decides
      return from_bits<T>(least ? to_bits(left) | to_bits(right) : to_bits(left) & to_bits(right));
  }
  return (left < right) == least ? left : right;
}

// REQUIRES: a step that the type knows (can_reduce).
template <typename T>
[[gnu::always_inline]] constexpr T combined(Step step, T left, T right) {
  if constexpr (std::is_same_v<T, Boolean>) {
    const bool a = left.byte != 0, b = right.byte != 0;
    const bool both = step == Step::product || step == Step::min || step == Step::band;
    const bool result = both ? a && b : step == Step::bxor ? a != b : a || b;
    return {static_cast<std::uint8_t>(result ? 1 : 0)};
  } else {
    if (step == Step::min || step == Step::max) return extreme(step == Step::min, left, right);
    if constexpr (std::is_floating_point_v<T>) {
      return computed(left, right, step == Step::sum ? left + right : left * right);
    } else {  // integers wrap
      const auto a = static_cast<std::uint64_t>(left), b = static_cast<std::uint64_t>(right);
      switch (step) {
        case Step::product: return static_cast<T>(a * b);
        case Step::band: return static_cast<T>(a & b);
        case Step::bor: return static_cast<T>(a | b);
        case Step::bxor: return static_cast<T>(a ^ b);
        default: return static_cast<T>(a + b);
      }
    }
  }
}

// --- the elements --------------------------------------------------------------------------------

// A kernel is given this by value.
struct Operands {
  const void* inputs[16];
  void* outputs[16];
  std::uint64_t count;  // elements
  double factor;
  std::int32_t ranks;  // the number of inputs, and that of outputs
};

// kRanks: their number, where the compiler knows it; 0: it does not.
template <typename T, int kRanks>
[[gnu::always_inline]] constexpr void reduce_one(Step step, const Operands& all, std::uint64_t i) {
  const int ranks = kRanks > 0 ? kRanks : all.ranks;
  Wide<T> values[kRanks > 0 ? kRanks : 16] = {};
  for (int k = 0; k < ranks; ++k) values[k] = loaded<T>(static_cast<const T*>(all.inputs[k])[i]);
  for (int left = ranks; left > 1; left = (left + 1) / 2) {  // the levels of the balanced tree
    for (int k = 0; k + 1 < left; k += 2) values[k / 2] = combined(step, values[k], values[k + 1]);
    if (left % 2 == 1) values[left / 2] = values[left - 1];
  }
  Wide<T> result = values[0];
  if constexpr (std::is_floating_point_v<Wide<T>>) {
    if (all.factor != 1.0) {
      const auto factor = static_cast<Wide<T>>(all.factor);
      result = computed(result, factor, result * factor);
    }
  }
  for (int k = 0; k < ranks; ++k) static_cast<T*>(all.outputs[k])[i] = stored<T>(result);
}

// Elements begin, begin + stride ... of all. Sums of few ranks stay in registers.
template <typename T>
[[gnu::always_inline]] constexpr void reduce_elements(Step step, const Operands& all,
                                                      std::uint64_t begin, std::uint64_t stride) {
  const int known = std::is_floating_point_v<Wide<T>> && step == Step::sum ? all.ranks : 0;
  for (std::uint64_t i = begin; i < all.count; i += stride) {
    if (known == 2) reduce_one<T, 2>(Step::sum, all, i);
    else if (known == 4) reduce_one<T, 4>(Step::sum, all, i);
    else reduce_one<T, 0>(step, all, i);
  }
}

}  // namespace paceline::device
