// How ranks compute the mean of their gradients when they send compressed data.
//
// A method is a state machine: it names the next collective to carry out, and continues once that
// has been done. It sends nothing itself, so the same source runs on links, in a simulator and in
// tests.
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
#include "paceline/core/compress/kernels/spare_memory.h"

namespace paceline::compress {

// One collective as a value. Its buffers belong to the averaging (or are the gradient itself), and
// stay valid until the averaging is told that the exchange has been carried out. All ranks have the
// same kind, element type, op and root; counts may be 0.
struct Exchange {
  enum class Kind : std::uint8_t {
    all_reduce,  // in place or into another buffer; the same bits on all ranks
    all_gather,  // equal parts; in place: the input is part `rank` of the output
    all_to_all,  // as many elements as the counts say
    broadcast,   // in place
    swap,        // input to one rank, output from one; no rank: -1 and a count of 0
  } kind = Kind::all_reduce;
  ConstBuffer input;
  Buffer output;
  ReduceOp op = ReduceOp::sum;                   // all_reduce
  std::vector<std::size_t> send_counts = {};     // all_to_all: elements to each rank
  std::vector<std::size_t> receive_counts = {};  // all_to_all: elements from each rank
  int root = 0;                                  // broadcast
  int to = -1, from = -1;                        // swap
};

// The tensor that an averaging serves, on one rank. fused.h puts several tensors into one message.
struct AveragedTensor {
  std::uint32_t tensor = 0;  // number in the model, the same on all ranks
  std::size_t rows = 1;  // the tensor as a matrix: rows are its first dimension, columns all others
  std::size_t columns = 0;
  int rank = 0;
  int ranks = 1;
  std::uint64_t seed = 0;  // the run's seed
  // Shared with other parts. Null: the averaging has its own.
  std::shared_ptr<SpareMemory> spares = nullptr;

  std::size_t elements() const { return rows * columns; }
};

// The state of an averaging that a checkpoint keeps. state_transfer.h converts it to another number
// of ranks.
struct StateView {
  enum class Sharing : std::uint8_t {
    own,    // each rank has its own values; their mean over the ranks matters
    chunk,  // each rank has one chunk of the tensor
    equal,  // the same on all ranks
  } sharing = Sharing::own;
  std::string_view name;  // "residual"
  std::span<float> values;
  std::uint32_t tensor = 0;  // set where several tensors are fused
};

// Each tensor has one on each rank. It owns the state that outlives a step: residuals, momenta,
// factors. THREAD: one at a time.
class Averaging {
 public:
  virtual ~Averaging() = default;

  // Borrows `gradient` until finish(); its content is unspecified meanwhile. Returns nothing when
  // no exchange is needed. REQUIRES: gradient.size() is the part's elements().
  virtual std::optional<Exchange> begin(std::span<float> gradient, std::uint32_t step) = 0;

  // Call it once the exchange has been carried out. Returns nothing after the last one. A failure
  // names the rank whose message is malformed; the step is then over, and the state is as before
  // it.
  virtual Result<std::optional<Exchange>> next() = 0;

  // Tells, after the last exchange, whether a value of some rank is NaN or infinite, or overflowed
  // in compression. All ranks agree and skip the step: without finish() the state is as before it.
  virtual bool overflowed() const = 0;

  // Writes the mean, and takes the step into the state. A step can be dropped before this call, for
  // example when another tensor overflowed. A failure is as in next(), but the state is lost.
  // REQUIRES: !overflowed().
  virtual Result<> finish() = 0;

  // Valid until the next call of begin().
  virtual std::vector<StateView> state() = 0;
};

// The dense mean, for a tensor that travels whole among compressed ones for as long as that pays.
// The residual that error feedback kept while it was compressed is added at once.
std::unique_ptr<Averaging> whole_average(const AveragedTensor& part);

}  // namespace paceline::compress
