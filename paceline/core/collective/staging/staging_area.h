// StagingArea: the way between a device and the host for the calls of one group: a stream for each
// direction and one for sums, and memory that peers reach and that the device knows.
//
// Places are kept for later calls, because memory is slow to allocate and to register (3.6 ms for
// 64 MiB on an H200).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "paceline/core/device/device.h"
#include "paceline/core/membership/generation/allocation.h"

namespace paceline::collective {

// THREAD: any.
class StagingArea {
 public:
  using Allocate = std::function<Allocation(std::size_t bytes)>;

  // The memory and the events of one call.
  struct Place {
    using Word = std::atomic<std::uint32_t>;

    // Whether the device neither reads nor writes the memory for a call any more. One that fails
    // does not.
    bool is_quiet() const;
    // The same, and no stream waits for the word.
    bool is_free() const;
    // Streams wait for it until it has become `value`. It only grows.
    Word& word() const;

    Allocation memory;  // the bytes that were asked for, and the word
    std::uint32_t value = 0;
    // Behind all that the streams of the input and of the output had been given before the call.
    std::array<std::unique_ptr<device::Event>, 2> called;
    std::unique_ptr<device::Event> here;  // the input is on the host; or the sum is made
    std::vector<std::unique_ptr<device::Event>> pieces_here;  // of the input, before that
    std::unique_ptr<device::Event> returned;                  // the output is on the device
    // For each stream that was ordered behind a call: it has seen the word.
    std::vector<std::unique_ptr<device::Event>> ordered;
  };

  // `device` outlives it. THROWS Error (io): the device makes no streams.
  StagingArea(device::Device& device, Allocate allocate);
  // REQUIRES: all places were given back. Memory that the device has not let go of within a second
  // is not freed.
  ~StagingArea();

  device::Device& device() { return device_; }
  device::Stream down() const { return down_; }
  device::Stream up() const { return up_; }
  device::Stream sums() const { return sums_; }  // nothing of it waits for what callers do

  // A place of at least `bytes`. THROWS Error (io): there is not enough memory, or the device does
  // not register it or makes no events.
  std::unique_ptr<Place> take(std::size_t bytes);
  // Lets the place have so many events of pieces, at least. THROWS as take().
  void make_events(Place& place, std::size_t pieces);
  // It is taken again when it is free.
  void give_back(std::unique_ptr<Place> place);
  // Waits until the place is quiet, but no longer than a second; and not at all if the last wait
  // was in vain, so that a device that hangs keeps the end of many calls back for a second in all.
  void settle(const Place& place);

 private:
  device::Device& device_;
  const Allocate allocate_;
  device::Stream down_ = nullptr, up_ = nullptr, sums_ = nullptr;
  std::atomic<bool> hangs_ = false;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Place>> free_;
};

}  // namespace paceline::collective
