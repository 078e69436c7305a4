#include "paceline/core/collective/program/operation.h"

namespace paceline {

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce: return "all_reduce";
    case Operation::reduce_scatter: return "reduce_scatter";
    case Operation::all_gather: return "all_gather";
    case Operation::broadcast: return "broadcast";
    case Operation::barrier: return "barrier";
    case Operation::send: return "send";
    case Operation::recv: return "recv";
    case Operation::reduce: return "reduce";
    case Operation::gather: return "gather";
    case Operation::scatter: return "scatter";
    case Operation::all_to_all: return "all_to_all";
  }
  return "unknown";
}

bool is_reduction(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter ||
         operation == Operation::reduce;
}

bool has_root(Operation operation) {
  return operation == Operation::broadcast || operation == Operation::reduce ||
         operation == Operation::gather || operation == Operation::scatter;
}

}  // namespace paceline
