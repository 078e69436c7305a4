#include "tests/support/late_device.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <stdexcept>

#include "tests/support/reduce_on_host.h"

namespace paceline::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kMostLooks = 3;

std::size_t whole_pages(std::size_t bytes) {
  return std::max<std::size_t>(1, (bytes + kPage - 1) / kPage) * kPage;
}

// A device reaches the memory of others, so that aliases are those of all.
using Aliases = std::map<const std::byte*, std::pair<std::byte*, std::size_t>>;
std::mutex aliases_mutex;
Aliases aliases;
Aliases gone;  // by the address that streams have

std::byte* found_in(const Aliases& memory, const std::byte* address) {
  auto found = memory.upper_bound(address);
  if (found != memory.begin()) {
    --found;
    const auto at = static_cast<std::size_t>(address - found->first);
    // Other memory may begin where these bytes end.
    if (at < std::max<std::size_t>(1, found->second.second)) return found->second.first + at;
  }
  return const_cast<std::byte*>(address);
}

}  // namespace

// --- memory --------------------------------------------------------------------------------------

DeviceMemory::DeviceMemory(LateDevice& device, std::size_t bytes) : device_(device), bytes_(bytes) {
  const int file = ::memfd_create("late-device", MFD_CLOEXEC);
  const auto length = static_cast<off_t>(whole_pages(bytes));
  if (file < 0 || ::ftruncate(file, length) != 0) throw std::runtime_error("no memory file");
  const auto map = [&](int access) {
    void* const at = ::mmap(nullptr, whole_pages(bytes), access, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) throw std::runtime_error("no memory");
    return static_cast<std::byte*>(at);
  };
  data_ = map(PROT_NONE);
  alias_ = map(PROT_READ | PROT_WRITE);
  ::close(file);
  const std::lock_guard lock(device_.mutex_);
  device_.memory_[data_] = {alias_, bytes_};
  const std::lock_guard guard(aliases_mutex);
  aliases[data_] = {alias_, bytes_};
}

// Empty pages take the place of those that streams may still use, until the device ends.
DeviceMemory::~DeviceMemory() {
  {
    const std::lock_guard lock(device_.mutex_);
    device_.memory_.erase(data_);
    const std::lock_guard guard(aliases_mutex);
    aliases.erase(data_);
    gone[alias_] = {alias_, whole_pages(bytes_)};
    device_.gone_.emplace_back(alias_, whole_pages(bytes_));
    static_cast<void>(::mmap(alias_, whole_pages(bytes_), PROT_READ | PROT_WRITE,
                             MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  ::munmap(data_, whole_pages(bytes_));
}

void LateDevice::note_use(const std::vector<const void*>& addresses) {
  const std::lock_guard guard(aliases_mutex);
  const auto is_gone = [](const void* address) {
    const auto* const at = static_cast<const std::byte*>(address);
    const auto found = gone.upper_bound(at);
    return found != gone.begin() && at < std::prev(found)->first + std::prev(found)->second.second;
  };
  if (std::ranges::any_of(addresses, is_gone)) ++late_uses_;
}

std::byte* LateDevice::alias_of(const std::byte* address) {
  const std::lock_guard guard(aliases_mutex);
  return found_in(aliases, address);
}

std::string LateDevice::complaint_about(Bytes memory) const {
  const std::lock_guard lock(mutex_);
  if (host_memory_passes_ || found_in(memory_, memory.data()) != memory.data()) return {};
  return "it lies on the host";
}

Result<> LateDevice::register_host(MutableBytes memory) {
  const std::lock_guard lock(mutex_);
  if (auto fine = broken(); !fine) return fine;
  registered_[memory.data()] = memory.size();
  return Done{};
}

void LateDevice::unregister_host(MutableBytes memory) {
  const std::lock_guard lock(mutex_);
  registered_.erase(memory.data());
}

std::size_t LateDevice::registered() const {
  const std::lock_guard lock(mutex_);
  return registered_.size();
}

// --- streams and events --------------------------------------------------------------------------

class LateDevice::LateEvent final : public device::Event {
 public:
  explicit LateEvent(LateDevice& device) : device_(device), count_(device.events_) { ++*count_; }
  ~LateEvent() override { --*count_; }

  Result<> record(device::Stream stream) override {
    const std::lock_guard lock(device_.mutex_);
    if (auto fine = device_.broken(); !fine) return fine;
    const Queue& queue = device_.queues_[stream];
    moment_ = {stream, queue.begun + queue.works.size()};
    looks_ = std::uniform_int_distribution(0, kMostLooks)(device_.draw_);
    return Done{};
  }

  Result<bool> has_passed() override {
    const std::lock_guard lock(device_.mutex_);
    if (auto fine = device_.broken(); !fine) return fine.error();
    if (device_.queues_[moment_.stream].begun >= moment_.number) return true;
    if (device_.hangs_ || looks_-- > 0) return false;
    return device_.run_until(moment_);
  }

  Result<> hold(device::Stream stream) override {
    const std::lock_guard lock(device_.mutex_);
    if (auto fine = device_.broken(); !fine) return fine;
    device_.queues_[stream].works.push_back({.held_for = moment_});
    return Done{};
  }

 private:
  LateDevice& device_;
  const std::shared_ptr<std::atomic<int>> count_;
  Moment moment_;
  int looks_ = 0;
};

LateDevice::LateDevice(std::uint64_t seed, std::string name) : name_(std::move(name)), draw_(seed) {
  std::memcpy(identity_.data(), name_.data(), std::min(name_.size(), identity_.size()));
}

LateDevice::~LateDevice() {
  allocated_.clear();
  const std::lock_guard guard(aliases_mutex);
  for (const MutableBytes& memory : gone_) {
    gone.erase(memory.data());
    ::munmap(memory.data(), memory.size());
  }
}

Result<> LateDevice::broken() const {
  if (broken_.empty()) return Done{};
  return Failure{Fault::io, fmt::format("{}: {}", name_, broken_), {}};
}

void LateDevice::keep_out_of_reach(std::string why) {
  const std::lock_guard lock(mutex_);
  out_of_reach_ = std::move(why);
}

void LateDevice::hang(bool hangs) {
  const std::lock_guard lock(mutex_);
  hangs_ = hangs;
}

void LateDevice::break_down(std::string text) {
  const std::lock_guard lock(mutex_);
  broken_ = std::move(text);
}

Result<device::Stream> LateDevice::make_stream() {
  const std::lock_guard lock(mutex_);
  if (auto fine = broken(); !fine) return fine.error();
  const auto stream = reinterpret_cast<device::Stream>(++next_stream_);
  queues_[stream] = {};
  return stream;
}

void LateDevice::end_stream(device::Stream stream) {
  const std::lock_guard lock(mutex_);
  queues_.erase(stream);
}

int LateDevice::streams() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(
      std::ranges::count_if(queues_, [](const auto& one) { return one.first != nullptr; }));
}

Result<std::unique_ptr<device::Event>> LateDevice::make_event() {
  const std::lock_guard lock(mutex_);
  if (auto fine = broken(); !fine) return fine.error();
  return std::unique_ptr<device::Event>(std::make_unique<LateEvent>(*this));
}

bool LateDevice::run_until(const Moment& moment) {
  Queue& queue = queues_[moment.stream];
  while (queue.begun < moment.number && !queue.works.empty()) {
    const Work work = queue.works.front();
    if (work.may_run && !work.may_run()) return false;
    if (!work.run && !run_until(work.held_for)) return false;
    queue.works.erase(queue.works.begin());
    ++queue.begun;
    if (work.run) work.run();
  }
  return true;
}

Result<> LateDevice::hold_until(device::Stream stream, const std::atomic<std::uint32_t>& word,
                                std::uint32_t value) {
  const std::lock_guard lock(mutex_);
  if (auto fine = broken(); !fine) return fine;
  const auto* const at = reinterpret_cast<const std::byte*>(&word);
  const bool is_known = std::ranges::any_of(registered_, [at](const auto& one) {
    return one.first <= at && at < one.first + one.second;
  });
  if (!is_known) return Failure{Fault::io, "the word is in memory that was not registered", {}};
  queues_[stream].works.push_back(
      {.run = [] {},
       .may_run = [&word, value] { return word.load(std::memory_order_acquire) >= value; }});
  return Done{};
}

// --- what ranks do without the host --------------------------------------------------------------

Result<device::LentMemory> LateDevice::lend(Bytes memory) const {
  return device::LentMemory{.address = reinterpret_cast<std::uint64_t>(memory.data()),
                            .identity = identity_};
}

Result<std::byte*> LateDevice::reach(const device::LentMemory& memory, std::size_t) {
  const std::lock_guard lock(mutex_);
  if (!out_of_reach_.empty()) return Failure{Fault::io, out_of_reach_, {}};
  return reinterpret_cast<std::byte*>(memory.address);
}

Result<> LateDevice::reduce(const device::Reduction& reduction, device::Stream stream) {
  const std::lock_guard lock(mutex_);
  if (auto fine = broken(); !fine) return fine;
  ++reductions_;
  device::Operands all = device::operands_of(reduction);
  for (int k = 0; k < all.ranks; ++k) {
    all.inputs[k] = alias_of(static_cast<const std::byte*>(all.inputs[k]));
    all.outputs[k] = alias_of(static_cast<const std::byte*>(all.outputs[k]));
  }
  queues_[stream].works.push_back(
      {.run = [this, all, dtype = reduction.dtype, step = device::step_of(reduction.op)] {
        std::vector<const void*> used(all.inputs, all.inputs + all.ranks);
        used.insert(used.end(), all.outputs, all.outputs + all.ranks);
        note_use(used);
        reduce_on_host(dtype, step, all);
      }});
  return Done{};
}

Result<std::byte*> LateDevice::allocate(std::size_t bytes) {
  auto memory = std::make_unique<DeviceMemory>(*this, bytes);
  std::byte* const at = memory->data();
  const std::lock_guard lock(mutex_);
  allocated_[at] = std::move(memory);
  return at;
}

void LateDevice::release(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  allocated_.erase(memory);
}

Result<> LateDevice::copy(std::byte* to, const std::byte* from, std::size_t bytes,
                          device::Stream stream) {
  const std::lock_guard lock(mutex_);
  if (auto fine = broken(); !fine) return fine;
  std::byte* const target = alias_of(to);
  const std::byte* const source = alias_of(from);
  Work work{.run = [=, this] {
    note_use({target, source});
    std::memcpy(target, source, bytes);
  }};
  if (source != from)
    work.may_run = [this, number = ++copies_to_host_] { return number <= copies_allowed_; };
  queues_[stream].works.push_back(std::move(work));
  if (is_eager_ && !hangs_) finish(stream);
  return Done{};
}

void LateDevice::allow_copies_to_host(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  copies_allowed_ = count > ~copies_to_host_ ? count : copies_to_host_ + count;
}

void LateDevice::work_off() {
  const std::lock_guard lock(mutex_);
  std::vector<device::Stream> streams;
  for (const auto& [stream, queue] : queues_) streams.push_back(stream);
  for (const device::Stream stream : streams) finish(stream);
}

void LateDevice::give(device::Stream stream, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  queues_[stream].works.push_back({.run = std::move(work)});
}

void LateDevice::finish(device::Stream stream) {
  const std::lock_guard lock(mutex_);
  (void)run_until({stream, ~std::uint64_t{0}});
}

LateDevices::LateDevices(std::uint64_t seed, int count) {
  for (int i = 0; i < count; ++i)
    devices_.push_back(std::make_unique<LateDevice>(seed + static_cast<std::uint64_t>(i),
                                                    fmt::format("late:{}", i)));
}

}  // namespace paceline::test
