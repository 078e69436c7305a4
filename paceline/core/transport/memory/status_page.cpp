#include "paceline/core/transport/memory/status_page.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>

#include "paceline/core/base/deadline.h"

namespace paceline::transport {
namespace {

template <std::size_t N>
void put(std::array<char, N>& to, std::string_view text) {
  to.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), N - 1), to.begin());
}

std::int64_t now_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

}  // namespace

// A seqlock: odd while the content is being written.
struct StatusPage::Page {
  std::atomic<std::uint64_t> sequence = 0;
  RankStatus status;
};
static_assert(std::is_trivially_copyable_v<RankStatus>);
constexpr std::size_t kSequenceOffset = 0, kStatusOffset = sizeof(std::uint64_t);

StatusPage::StatusPage() {
  static_assert(offsetof(Page, sequence) == kSequenceOffset);
  static_assert(offsetof(Page, status) == kStatusOffset);
  if (auto memory = SharedMemory::create(sizeof(Page), kName)) {
    memory_.emplace(std::move(memory).value());
    page_ = new (memory_->bytes().data()) Page;
  } else {
    own_ = std::make_unique<Page>();
    page_ = own_.get();
  }
}

StatusPage::~StatusPage() = default;

template <typename Change>
void StatusPage::change(Change change) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t sequence = page_->sequence.load(std::memory_order_relaxed);
  page_->sequence.store(sequence + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  change(page_->status);
  page_->sequence.store(sequence + 2, std::memory_order_release);
}

void StatusPage::join(std::string_view job, std::uint64_t generation, int rank, int world_size) {
  change([&](RankStatus& status) {
    put(status.job, job);
    status.generation = generation;
    status.rank = rank;
    status.world_size = world_size;
  });
}

void StatusPage::serve(int server) {
  change([&](RankStatus& status) { status.server = server; });
}

void StatusPage::has_device(std::string_view name) {
  change([&](RankStatus& status) { put(status.device, name); });
}

void StatusPage::served(const RankStatus::Serves& now) {
  change([&](RankStatus& status) { status.serves = now; });
}

void StatusPage::operation_began() {
  change([](RankStatus& status) { ++status.in_flight; });
}

void StatusPage::operation_ended() {
  change([](RankStatus& status) { --status.in_flight, ++status.operations; });
}

void StatusPage::operation_passed() {
  change([](RankStatus& status) { ++status.operations; });
}

void StatusPage::wait_began(std::string_view operation) {
  change([&](RankStatus& status) {
    if (waiting_++ > 0) return;
    status.waiting_since_ns = now_ns();
    put(status.waits_for, operation);
  });
}

void StatusPage::wait_ended(std::int64_t waited_ns) {
  change([&](RankStatus& status) {
    status.waited_ns += waited_ns;
    if (--waiting_ == 0) status.waiting_since_ns = 0;
  });
}

void StatusPage::report(std::int64_t step, double samples, double loss) {
  change([&](RankStatus& status) {
    status.step = step, status.samples = samples, status.loss = loss;
  });
}

void StatusPage::report_stages(std::string_view numbers, std::int64_t idle_ns,
                               std::int64_t compute_ns) {
  change([&](RankStatus& status) {
    put(status.stages.numbers, numbers);
    status.stages.idle_ns = idle_ns;
    status.stages.compute_ns = compute_ns;
  });
}

namespace {

template <typename T>
bool read_at(const FileDescriptor& file, std::size_t offset, T& value) {
  return ::pread(file.get(), &value, sizeof(value), static_cast<off_t>(offset)) ==
         static_cast<ssize_t>(sizeof(value));
}

}  // namespace

// The sequence is read by calls of its own: within one call the system copies in an order of its
// choice, so a sequence that is read together with the content says nothing about it.
std::optional<RankStatus> read_status(const char* path) {
  const FileDescriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  constexpr int kTries = 100;
  for (int i = 0; file.is_open() && i < kTries; ++i) {
    std::uint64_t before = 0, after = 0;
    RankStatus status;
    if (!read_at(file, kSequenceOffset, before)) return std::nullopt;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (!read_at(file, kStatusOffset, status)) return std::nullopt;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (!read_at(file, kSequenceOffset, after)) return std::nullopt;
    if (before != after || before % 2 != 0) continue;
    if (status.magic != RankStatus::kMagic) return std::nullopt;
    // Bytes of another process are never trusted.
    status.job.back() = status.waits_for.back() = status.stages.numbers.back() =
        status.device.back() = '\0';
    return status;
  }
  return std::nullopt;
}

}  // namespace paceline::transport
