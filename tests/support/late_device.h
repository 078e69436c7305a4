// A double of a device whose streams work as late as they may: a piece of work is done when
// somebody asks for an event behind it, and then, after some looks that are drawn, no more than
// that event needs. So an event, a hold or a record that is left out shows as a wrong element.
//
// Memory that is gone may still be read and written by streams that were given it before: that is
// counted, and harms nobody.
//
// Its memory cannot be read or written at the addresses that callers know. Memory of the host, too,
// may stand for the device's, for claims that know nothing of devices.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/device/device.h"

namespace paceline::test {

class LateDevice;

// Pages of a LateDevice, unreadable where `data()` says, readable in `on_host()`.
class DeviceMemory {
 public:
  DeviceMemory(LateDevice& device, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* data() const { return data_; }
  // The bytes that stand there now, whatever streams have still to do.
  MutableBytes on_host() const { return {alias_, bytes_}; }

 private:
  LateDevice& device_;
  const std::size_t bytes_;
  std::byte *data_ = nullptr, *alias_ = nullptr;
};

// THREAD: any.
class LateDevice final : public device::Device {
 public:
  explicit LateDevice(std::uint64_t seed, std::string name = "late:0");
  ~LateDevice() override;

  std::string name() const override { return name_; }
  Result<device::Stream> make_stream() override;
  void end_stream(device::Stream stream) override;
  Result<std::unique_ptr<device::Event>> make_event() override;
  Result<std::byte*> allocate(std::size_t bytes) override;
  void release(std::byte* memory) override;
  Result<> copy(std::byte* to, const std::byte* from, std::size_t bytes,
                device::Stream stream) override;
  Result<> register_host(MutableBytes memory) override;
  void unregister_host(MutableBytes memory) override;
  std::string complaint_about(Bytes memory) const override;
  std::array<std::byte, 16> identity() const override { return identity_; }
  Result<> hold_until(device::Stream stream, const std::atomic<std::uint32_t>& word,
                      std::uint32_t value) override;
  Result<> reduce(const device::Reduction& reduction, device::Stream stream) override;
  Result<device::LentMemory> lend(Bytes memory) const override;
  Result<std::byte*> reach(const device::LentMemory& memory, std::size_t bytes) override;

  // A kernel of the program's own.
  void give(device::Stream stream, std::function<void()> work);
  // Does all that the stream was given.
  void finish(device::Stream stream);
  // Does all that streams can do now, as a device does without being asked.
  void work_off();
  // From now on it copies as soon as it may (true), or as late (false): copies that are given too
  // early, and waits that are left out behind them, show in the one way or in the other.
  void be_eager(bool is_eager) { is_eager_ = is_eager; }
  // From now on it does so many copies to the host, of those it is given, and later ones wait.
  void allow_copies_to_host(std::uint64_t count);

  void let_host_memory_pass(bool passes) { host_memory_passes_ = passes; }
  // From now on it reaches nobody's memory, or (empty) everybody's.
  void keep_out_of_reach(std::string why);
  void hang(bool hangs);                          // from now on no work is done
  void break_down(std::string text);              // from now on every call fails; empty: none does
  std::size_t registered() const;                 // ranges of host memory
  int streams() const;                            // that exist, without the usual one
  int reductions() const { return reductions_; }  // that were given to streams
  int live_events() const { return *events_; }    // that exist
  // The pieces of work of its streams that used memory of a device after that was gone.
  int late_uses() const { return late_uses_; }

 private:
  friend class DeviceMemory;
  class LateEvent;
  struct Moment {
    device::Stream stream = nullptr;
    std::uint64_t number = 0;  // pieces that the stream had been given
  };
  struct Work {
    std::function<void()> run;  // empty: it holds the stream for a moment of another one
    Moment held_for = {};
    std::function<bool()> may_run = {};  // empty: it always may
  };
  struct Queue {
    std::uint64_t begun = 0;  // pieces that are done
    std::vector<Work> works = {};
  };
  bool run_until(const Moment& moment);  // false: not yet. REQUIRES: the lock
  void note_use(const std::vector<const void*>& addresses);
  static std::byte* alias_of(const std::byte* address);
  Result<> broken() const;

  const std::string name_;
  mutable std::recursive_mutex mutex_;
  std::mt19937_64 draw_;
  std::map<device::Stream, Queue> queues_;
  std::map<const std::byte*, std::pair<std::byte*, std::size_t>> memory_;  // alias and length
  std::map<const std::byte*, std::size_t> registered_;
  std::shared_ptr<std::atomic<int>> events_ = std::make_shared<std::atomic<int>>(0);
  std::atomic<int> reductions_ = 0, late_uses_ = 0;
  std::vector<MutableBytes> gone_;  // memory, at the addresses that streams have
  std::atomic<bool> is_eager_ = false;
  std::map<const std::byte*, std::unique_ptr<DeviceMemory>> allocated_;
  std::uintptr_t next_stream_ = 0;
  std::array<std::byte, 16> identity_ = {};
  bool host_memory_passes_ = false, hangs_ = false;
  std::uint64_t copies_to_host_ = 0, copies_allowed_ = ~std::uint64_t{0};
  std::string broken_, out_of_reach_;
};

// THREAD: any.
class LateDevices final : public device::Devices {
 public:
  explicit LateDevices(std::uint64_t seed, int count = 1);
  int count() const override { return static_cast<int>(devices_.size()); }
  LateDevice& device(int number) override { return *devices_[static_cast<std::size_t>(number)]; }

 private:
  std::vector<std::unique_ptr<LateDevice>> devices_;
};

}  // namespace paceline::test
