// The door of device: accelerators whose memory the processors of this host do not read, as
// interfaces. A plugin implements them for a maker's library (plugins/cuda), and a double for the
// tests (tests/support/late_device.h); nothing here names any of them. device_plugin.h loads one.
//
// A device works through streams: queues in which each piece of work begins when the one before it
// has ended. What a call gives to a stream it returns from at once; events tell how far a stream
// has come, to this process and to other streams.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "paceline/core/base/bytes.h"
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

// THREAD: any. It outlives all that it has made.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // "cuda:0", for messages
  // Called before anything else of the device is used.
  virtual Result<Stream> make_stream() = 0;
  virtual void end_stream(Stream stream) = 0;  // REQUIRES: it has done all
  virtual Result<std::unique_ptr<Event>> make_event() = 0;
  // Gives the copy to `stream`. One of the two places is in the device's memory and the other one
  // on the host. Both must stay until the copy is done.
  virtual Result<> copy(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) = 0;
  // The device copies to and from host memory that was registered without a detour. It stays
  // registered until unregister(), which must be called before it is freed.
  virtual Result<> register_host(MutableBytes memory) = 0;
  virtual void unregister_host(MutableBytes memory) = 0;
  // Why these bytes are not in the device's memory, in words; empty: they are.
  virtual std::string complaint_about(Bytes memory) const = 0;
};

// The devices that this process sees. THREAD: any.
class Devices {
 public:
  virtual ~Devices() = default;
  virtual int count() const = 0;
  virtual Device& device(int number) = 0;  // REQUIRES: 0 <= number < count()
};

}  // namespace paceline::device
