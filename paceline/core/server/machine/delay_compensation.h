// DelayCompensation: what the workers of a range had pulled last, and how their gradients, which
// belong to that, are brought to the values that the range has now.
//
// Only the server that answers pulls knows it, so the range has one replica. All workers begin with
// the same values, and when all were quiet they have the same again.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/server/consistency/consistency.h"

namespace paceline::server {

// A value.
class DelayCompensation {
 public:
  struct Row {
    std::uint32_t pull = 0;  // its number
    std::int64_t clock = 0;
    std::uint64_t version = 0;
    std::vector<std::byte> values = {};
  };

  // All workers have these values.
  void begin(Bytes values);
  // The row by which a worker's pull is answered; the worker has it until its next pull. A pull
  // that is answered again, where messages may be lost, has the row that it had before.
  const Row& answer(int worker, Row now);
  void leave(int worker) { rows_.erase(worker); }

  // Brings the worker's gradient from the values that it had to these. `mean_square`: of gradients,
  // one for each element, if the compensation is adaptive; this one is taken in.
  void compensate(const Compensation& by, Dtype dtype, int worker, MutableBytes gradient,
                  Bytes values, MutableBytes mean_square) const;

 private:
  std::vector<std::byte> first_;  // of workers that have no row
  std::map<int, Row> rows_;       // by worker
};

}  // namespace paceline::server
