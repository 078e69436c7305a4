#include "paceline/plugins/mpi/types.h"

#include <map>

namespace paceline::mpi {
namespace {

// Types that MPI lacks, as contiguous bytes. They are distinct types, so that a reduction can tell
// them apart.
MPI_Datatype f16_type, bf16_type, bool_type;
std::map<ReduceOp, MPI_Op> own_ops;

MPI_Datatype bytes_of_size(int bytes) {
  MPI_Datatype type;
  MPI_Type_contiguous(bytes, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  return type;
}

Dtype dtype_of_own(MPI_Datatype type) {
  if (type == f16_type) return Dtype::f16;
  if (type == bf16_type) return Dtype::bf16;
  if (type == bool_type) return Dtype::boolean;
  return type == MPI_FLOAT ? Dtype::f32 : Dtype::f64;
}

// MPI's signature of a reduction: inout = in OP inout, where `in` is of the lower ranks.
template <ReduceOp op>
void combine(void* in, void* inout, int* count, MPI_Datatype* type) {
  const Dtype dtype = dtype_of_own(*type);
  const std::size_t bytes = static_cast<std::size_t>(*count) * size_of(dtype);
  const MutableBytes target(static_cast<std::byte*>(inout), bytes);
  reduce(op, dtype, {static_cast<const std::byte*>(in), bytes}, target, target);
}

template <ReduceOp op>
void make_op() {
  MPI_Op_create(combine<op>, 1, &own_ops[op]);
}

// MPI_Finalize calls it, because it begins by deleting the attributes of MPI_COMM_SELF.
int free_types(MPI_Comm, int, void*, void*) {
  for (MPI_Datatype* type : {&f16_type, &bf16_type, &bool_type}) MPI_Type_free(type);
  for (auto& [op, made] : own_ops) MPI_Op_free(&made);
  return MPI_SUCCESS;
}

bool is_mpis_own(ReduceOp op, Dtype dtype) {
  if (dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::boolean) return false;
  return !is_floating(dtype) || op == ReduceOp::sum || op == ReduceOp::product;
}

}  // namespace

void make_types() {
  f16_type = bytes_of_size(2);
  bf16_type = bytes_of_size(2);
  bool_type = bytes_of_size(1);
  make_op<ReduceOp::sum>();
  make_op<ReduceOp::product>();
  make_op<ReduceOp::min>();
  make_op<ReduceOp::max>();
  make_op<ReduceOp::band>();
  make_op<ReduceOp::bor>();
  make_op<ReduceOp::bxor>();
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_types, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  MPI_Comm_free_keyval(&key);  // takes effect once the attribute is gone
}

MPI_Datatype type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return MPI_DOUBLE;
    case Dtype::f32: return MPI_FLOAT;
    case Dtype::f16: return f16_type;
    case Dtype::bf16: return bf16_type;
    case Dtype::i64: return MPI_INT64_T;
    case Dtype::i32: return MPI_INT32_T;
    case Dtype::i16: return MPI_INT16_T;
    case Dtype::i8: return MPI_INT8_T;
    case Dtype::u8: return MPI_UINT8_T;
    case Dtype::boolean: return bool_type;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op op_of(ReduceOp op, Dtype dtype) {
  if (!is_mpis_own(op, dtype)) return own_ops.at(op);
  switch (op) {
    case ReduceOp::product: return MPI_PROD;
    case ReduceOp::min: return MPI_MIN;
    case ReduceOp::max: return MPI_MAX;
    case ReduceOp::band: return MPI_BAND;
    case ReduceOp::bor: return MPI_BOR;
    case ReduceOp::bxor: return MPI_BXOR;
    default: return MPI_SUM;
  }
}

}  // namespace paceline::mpi
