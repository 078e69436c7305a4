#include "paceline/core/collective/program/contract.h"

namespace paceline::collective {

bool has_programs(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all:
    case Operation::barrier: return true;
    case Operation::send:
    case Operation::recv: return false;
  }
  return false;
}

bool is_carried_by_programs(Operation operation) {
  return has_programs(operation) && operation != Operation::barrier;
}

int chunks_needed(Operation operation, int ranks) {
  switch (operation) {
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::gather:
    case Operation::scatter:
    case Operation::barrier: return ranks;
    case Operation::all_to_all: return ranks * ranks;
    default: return 0;
  }
}

bool has_input(Operation operation, const Shape& shape, int chunk) {
  switch (operation) {
    case Operation::broadcast:
    case Operation::scatter: return shape.rank == shape.root;
    case Operation::all_gather:
    case Operation::gather:
    case Operation::barrier: return chunk == shape.rank;
    case Operation::all_to_all: return chunk / shape.ranks == shape.rank;
    default: return true;
  }
}

bool has_output(Operation operation, const Shape& shape, int chunk) {
  switch (operation) {
    case Operation::reduce:
    case Operation::gather: return shape.rank == shape.root;
    case Operation::reduce_scatter:
    case Operation::scatter: return chunk == shape.rank;
    case Operation::all_to_all: return chunk % shape.ranks == shape.rank;
    default: return true;
  }
}

int source_of(Operation operation, const Shape& shape, int chunk) {
  switch (operation) {
    case Operation::broadcast:
    case Operation::scatter: return shape.root;
    case Operation::all_to_all: return chunk / shape.ranks;
    default: return chunk;
  }
}

}  // namespace paceline::collective
