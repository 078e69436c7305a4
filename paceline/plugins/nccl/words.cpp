#include "paceline/plugins/nccl/words.h"

#include "paceline/core/base/half.h"

namespace paceline::nccl {
namespace {

std::optional<Type> type_for(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return Type::f64;
    case Dtype::f32: return Type::f32;
    case Dtype::f16: return Type::f16;
    case Dtype::bf16: return Type::bf16;
    case Dtype::i64: return Type::i64;
    case Dtype::i32: return Type::i32;
    case Dtype::i16: return std::nullopt;
    case Dtype::i8: return Type::i8;
    case Dtype::u8:
    case Dtype::boolean: return Type::u8;
  }
  return std::nullopt;
}

std::optional<Op> op_for(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return Op::sum;
    case ReduceOp::product: return Op::product;
    case ReduceOp::min: return Op::min;
    case ReduceOp::max: return Op::max;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Op> op_for_bools(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bor: return Op::max;
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::band: return Op::min;
    default: return std::nullopt;
  }
}

template <typename T>
std::vector<std::byte> copy_of(T value) {
  const Bytes bytes = bytes_of(value);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::optional<Words> words_for(ReduceOp op, Dtype dtype) {
  const auto type = type_for(dtype);
  const auto word = dtype == Dtype::boolean ? op_for_bools(op) : op_for(op);
  if (!type || !word) return std::nullopt;
  return Words{*type, *word};
}

std::vector<std::byte> scalar_of(Dtype dtype, double factor) {
  if (dtype == Dtype::f64) return copy_of(factor);
  const auto single = static_cast<float>(factor);
  if (!is_half(dtype)) return copy_of(single);
  std::vector<std::byte> half(2);
  narrow(dtype, std::span(&single, 1), half);
  return half;
}

}  // namespace paceline::nccl
