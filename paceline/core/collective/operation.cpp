#include "paceline/core/collective/operation.h"

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
  }
  return "unknown";
}

bool is_reduction(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter;
}

}  // namespace paceline
