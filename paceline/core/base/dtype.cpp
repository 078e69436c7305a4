#include "paceline/core/base/dtype.h"

namespace paceline {

std::size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
    case Dtype::i64: return 8;
    case Dtype::f32:
    case Dtype::i32: return 4;
    case Dtype::f16:
    case Dtype::bf16:
    case Dtype::i16: return 2;
    case Dtype::i8:
    case Dtype::u8:
    case Dtype::boolean: return 1;
  }
  return 0;
}

std::string_view name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return "f64";
    case Dtype::f32: return "f32";
    case Dtype::f16: return "f16";
    case Dtype::bf16: return "bf16";
    case Dtype::i64: return "i64";
    case Dtype::i32: return "i32";
    case Dtype::i16: return "i16";
    case Dtype::i8: return "i8";
    case Dtype::u8: return "u8";
    case Dtype::boolean: return "bool";
  }
  return "unknown";
}

bool is_known(Dtype dtype) {
  return size_of(dtype) != 0;
}

bool is_floating(Dtype dtype) {
  return dtype == Dtype::f64 || dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16;
}

}  // namespace paceline
