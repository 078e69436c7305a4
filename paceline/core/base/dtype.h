// Element types on the wire and in memory. The numbers are part of the wire format (docs/wire.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace paceline {

enum class Dtype : std::uint8_t { f64 = 1, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

std::size_t size_of(Dtype dtype);       // bytes of one element
std::string_view name_of(Dtype dtype);  // "f32"; "unknown" for a number that names no dtype
bool is_known(Dtype dtype);             // false for a number from the wire that names no dtype
bool is_floating(Dtype dtype);

template <typename T>
constexpr Dtype dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, double>) return Dtype::f64;
  else if constexpr (std::is_same_v<U, float>) return Dtype::f32;
  else if constexpr (std::is_same_v<U, std::int64_t>) return Dtype::i64;
  else if constexpr (std::is_same_v<U, std::int32_t>) return Dtype::i32;
  else if constexpr (std::is_same_v<U, std::int16_t>) return Dtype::i16;
  else if constexpr (std::is_same_v<U, std::int8_t>) return Dtype::i8;
  else if constexpr (std::is_same_v<U, bool>) return Dtype::boolean;
  else {
    static_assert(std::is_same_v<U, std::uint8_t> || std::is_same_v<U, std::byte>,
                  "no Paceline dtype for this C++ type");
    return Dtype::u8;
  }
}

}  // namespace paceline
