// The door of device: accelerators whose memory the processors of this host do not read, as
// interfaces. A plugin implements them for a maker's library (plugins/cuda), and a double for the
// tests (tests/support/late_device.h); nothing here names any of them. device_plugin.h loads one. The
// arithmetic of sums on devices is reduce_elements.h, with operands.h as what kernels are given.
//
// A device works through streams: queues in which each piece of work begins when the one before it
// has ended. What a call gives to a stream it returns from at once; events tell how far a stream
// has come, to this process and to other streams.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/reduce.h"
#include "paceline/core/base/result.h"

namespace paceline::device {

// A stream, as the device's library names it (CUDA: a cudaStream_t). nullptr: the usual one.
using Stream = void*;

// A moment in a stream. THREAD: one at a time.
class Event {
 public:
  virtual ~Event() = default;
  // From now on this is the moment when `stream` has done all that it was given until now.
  virtual Result<> record(Stream stream) = 0;
  // Whether the moment has passed; never blocks. One that was never recorded has.
  virtual Result<bool> has_passed() = 0;
  // All that `stream` is given from now on begins after the moment.
  virtual Result<> hold(Stream stream) = 0;
};

// A place in a device's memory, as other ranks are told of it: plain bytes, which travel.
struct LentMemory {
  std::uint64_t process = 0;                // of whom lends it: drawn when a process begins
  std::uint64_t address = 0;                // there
  std::uint64_t offset = 0;                 // in the allocation that the handle names
  std::array<std::byte, 64> handle = {};    // as the device's library names it for other processes
  std::array<std::byte, 16> identity = {};  // of the device
};

// An element-wise reduction of one input of each rank, in the order of ranks, by the balanced tree
// (base/reduce.h): each output is the result times `factor`. An output may be an input.
struct Reduction {
  ReduceOp op = ReduceOp::sum;
  Dtype dtype = Dtype::f32;
  std::size_t count = 0;  // elements
  double factor = 1;
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
};

// THREAD: any. It outlives all that it has made.
class Device {
 public:
  // The most inputs, and the most outputs, that one Reduction may have.
  static constexpr int kMostOperands = 16;

  virtual ~Device() = default;
  virtual std::string name() const = 0;  // "cuda:0", for messages
  // The same in all processes that see the device.
  virtual std::array<std::byte, 16> identity() const = 0;
  // Called before anything else of the device is used.
  virtual Result<Stream> make_stream() = 0;
  virtual void end_stream(Stream stream) = 0;  // REQUIRES: it has done all
  virtual Result<std::unique_ptr<Event>> make_event() = 0;
  virtual Result<std::byte*> allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* memory) = 0;  // REQUIRES: nothing of the device uses it
  // Gives the copy to `stream`. One of the two places is in the device's memory and the other one
  // on the host. Both must stay until the copy is done.
  virtual Result<> copy(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) = 0;
  // The device copies to and from host memory that was registered without a detour. It stays
  // registered until unregister(), which must be called before it is freed.
  virtual Result<> register_host(MutableBytes memory) = 0;
  virtual void unregister_host(MutableBytes memory) = 0;
  // Why these bytes are not in the device's memory, in words; empty: they are.
  virtual std::string complaint_about(Bytes memory) const = 0;

  // All that `stream` is given from now on begins when the word, in host memory that was registered,
  // has become at least `value`.
  virtual Result<> hold_until(Stream stream, const std::atomic<std::uint32_t>& word,
                              std::uint32_t value) = 0;
  // Gives the reduction to `stream`, with the bits of the host's. All memory is the device's, or was
  // reached by it. REQUIRES: can_reduce(op, dtype); at most kMostOperands of each.
  virtual Result<> reduce(const Reduction& reduction, Stream stream) = 0;
  // For other ranks on this host. REQUIRES: no complaint_about it.
  virtual Result<LentMemory> lend(Bytes memory) const = 0;
  // Returns the place where this device finds what a rank has lent, which stays there while this
  // process lives. A failure: it is out of reach, for the reason that is told.
  virtual Result<std::byte*> reach(const LentMemory& memory, std::size_t bytes) = 0;
};

// The devices that this process sees. THREAD: any.
class Devices {
 public:
  virtual ~Devices() = default;
  virtual int count() const = 0;
  virtual Device& device(int number) = 0;  // REQUIRES: 0 <= number < count()
};

}  // namespace paceline::device
