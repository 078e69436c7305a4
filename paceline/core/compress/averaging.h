// How ranks arrive at the mean of their gradients when what travels is compressed.
//
// A method is a machine: it says which collective is to be carried out next, and goes on when it
// has been. It sends nothing itself, so the same source runs on links, in a simulator and in tests.
//
//   std::optional<Exchange> exchange = averaging.begin(gradient, step);
//   while (exchange) {
//     carry_out(*exchange);
//     exchange = averaging.next().value();
//   }
//   if (!averaging.overflowed()) averaging.finish().value();  // `gradient` is the mean
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/reduce.h"
#include "paceline/core/base/result.h"
#include "paceline/core/compress/spare_memory.h"

namespace paceline::compress {

// One collective as a value. Its buffers belong to the averaging (or are the gradient itself), and
// stay where they are until the averaging is told that it has been carried out. All ranks have the
// same kind, element type, op and root; counts may be 0.
struct Exchange {
  enum class Kind : std::uint8_t {
    all_reduce,  // in place; the same bits on all ranks
    all_gather,  // equal parts; in place: input is part `rank` of output
    all_to_all,  // by counts
    broadcast,   // in place
    swap,        // input to one rank, output from one; nobody: -1, and the count is 0
  } kind = Kind::all_reduce;
  ConstBuffer input;
  Buffer output;
  ReduceOp op = ReduceOp::sum;                   // all_reduce
  std::vector<std::size_t> send_counts = {};     // all_to_all: elements to each rank
  std::vector<std::size_t> receive_counts = {};  // and from each
  int root = 0;                                  // broadcast
  int to = -1, from = -1;                        // swap
};

// What an averaging is for: one tensor, on one rank. Messages of several tensors: fused.h.
struct Part {
  std::uint32_t tensor = 0;  // its number in the model, the same on all ranks
  std::size_t rows = 1;      // the tensor as a matrix: its first dimension, and all others
  std::size_t columns = 0;
  int rank = 0;
  int ranks = 1;
  std::uint64_t seed = 0;                         // of the run
  std::shared_ptr<SpareMemory> spares = nullptr;  // shared with other parts; else its own

  std::size_t elements() const { return rows * columns; }
};

// What a checkpoint keeps of an averaging, and what becomes of it on another number of ranks
// (reshard.h).
struct StateView {
  enum class Sharing : std::uint8_t {
    own,    // each rank its own: what counts is the mean over the ranks
    chunk,  // each rank one chunk of the tensor
    equal,  // the same on all ranks
  } sharing = Sharing::own;
  std::string_view name;  // "residual"
  std::span<float> values;
  std::uint32_t tensor = 0;  // set where several tensors are fused
};

// One for each tensor and rank; owns what goes from step to step: residuals, momenta, factors.
// THREAD: one at a time.
class Averaging {
 public:
  virtual ~Averaging() = default;

  // `gradient` is this averaging's until finish(); what is in it meanwhile is of no use to others.
  // REQUIRES: elements() of them. Nothing: no exchange is needed.
  virtual std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) = 0;

  // The exchange was carried out. Nothing: it was the last one. A failure names the rank whose
  // message is malformed; the step is over then, and the state as before it.
  virtual Result<std::optional<Exchange>> next() = 0;

  // After the last exchange: a value of some rank is NaN or infinite, or overflowed where it was
  // compressed. All ranks agree, and skip the step: without finish() the state is as before it.
  virtual bool overflowed() const = 0;

  // Writes the mean, and takes the step into the state. Until then a step may be dropped, as when
  // another tensor of it overflowed. REQUIRES: !overflowed(). A failure as above, but the state is
  // lost.
  virtual Result<> finish() = 0;

  // Valid until the next call of begin().
  virtual std::vector<StateView> state() = 0;
};

}  // namespace paceline::compress
