#include "paceline/core/transport/memory/status_page.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
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

StatusPage::StatusPage() {
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

std::optional<RankStatus> read_status(const char* path) {
  const FileDescriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  constexpr int kTries = 100;
  for (int i = 0; file.is_open() && i < kTries; ++i) {
    struct {
      std::uint64_t sequence;
      RankStatus status;
    } page;
    std::uint64_t after = 0;
    if (::pread(file.get(), &page, sizeof(page), 0) != static_cast<ssize_t>(sizeof(page)))
      return std::nullopt;
    if (::pread(file.get(), &after, sizeof(after), 0) != static_cast<ssize_t>(sizeof(after)))
      return std::nullopt;
    if (page.sequence != after || page.sequence % 2 != 0) continue;
    if (page.status.magic != RankStatus::kMagic) return std::nullopt;
    page.status.job.back() = page.status.waits_for.back() =
        '\0';  // bytes of another process are never trusted
    return page.status;
  }
  return std::nullopt;
}

}  // namespace paceline::transport
