#include "paceline/core/transport/shared/inbox.h"

#include <bit>

namespace paceline::transport {

InboxPage* InboxPage::in(const std::shared_ptr<const SharedMemory>& memory) {
  const bool fits = memory && memory->bytes().size() >= sizeof(InboxPage);
  return fits ? reinterpret_cast<InboxPage*>(memory->bytes().data()) : nullptr;
}

// The mark is made before it is asked, and the owner does so the other way round: one sees the
// other.
bool InboxPage::mark(int peer) {
  const auto bit = static_cast<std::size_t>(peer);
  marks_[bit / 64].fetch_or(std::uint64_t{1} << bit % 64, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst) == 0) return false;
  return asleep_.exchange(0, std::memory_order_seq_cst) != 0;
}

Inbox::Inbox(std::shared_ptr<const SharedMemory> memory, int peers, Reactor& reactor)
    : memory_(std::move(memory)),
      page_(*InboxPage::in(memory_)),
      reactor_(reactor),
      users_(static_cast<std::size_t>(peers)),
      due_(users_.size() / kBits + 1),
      always_(due_.size()) {
  reactor_.add(*this);
}

Inbox::~Inbox() {
  reactor_.remove(*this);
}

void Inbox::add(int peer, User& user) {
  const auto place = static_cast<std::size_t>(peer);
  users_[place] = &user;
  always_[place / kBits] |= std::uint64_t{1} << place % kBits;
}

void Inbox::remove(int peer) {
  const auto place = static_cast<std::size_t>(peer);
  const std::uint64_t others = ~(std::uint64_t{1} << place % kBits);
  users_[place] = nullptr;
  due_[place / kBits] &= others;
  always_[place / kBits] &= others;
}

void Inbox::note(int peer) {
  const auto place = static_cast<std::size_t>(peer);
  due_[place / kBits] |= std::uint64_t{1} << place % kBits;
}

void Inbox::take_marks() {
  for (std::size_t word = 0; word < due_.size(); ++word) {
    std::atomic<std::uint64_t>& marks = page_.marks_[word];
    if (marks.load(std::memory_order_relaxed) != 0)
      due_[word] |= marks.exchange(0, std::memory_order_seq_cst);
    due_[word] |= always_[word];
  }
}

template <typename Look>
bool Inbox::each_due(const Look& look) {
  bool moved = false;
  for (std::size_t word = 0; word < due_.size(); ++word) {
    for (std::uint64_t left = due_[word]; left != 0; left &= left - 1) {
      const auto place = word * kBits + static_cast<std::size_t>(std::countr_zero(left));
      if (place < users_.size() && users_[place] != nullptr) moved |= look(place);
    }
  }
  return moved;
}

// A link that is noted after its turn comes next time.
bool Inbox::poll() {
  take_marks();
  return each_due([this](std::size_t place) {
    const bool moved = users_[place]->poll();
    const std::uint64_t bit = std::uint64_t{1} << place % kBits;
    const User* const user = users_[place];  // it may be gone
    const bool again = user != nullptr && (moved || user->has_more());
    if (again) due_[place / kBits] |= bit;
    else due_[place / kBits] &= ~bit;
    if (user == nullptr || user->is_marked()) always_[place / kBits] &= ~bit;
    return moved;
  });
}

bool Inbox::flush() {
  return each_due([this](std::size_t place) { return users_[place]->flush(); });
}

void Inbox::set_asleep(bool asleep) {
  page_.asleep_.store(asleep ? 1 : 0, std::memory_order_seq_cst);
  for (std::size_t place = 0; place < users_.size(); ++place) {
    const bool is_always = (always_[place / kBits] >> place % kBits & 1) != 0;
    if (is_always && users_[place] != nullptr) users_[place]->set_asleep(asleep);
  }
}

}  // namespace paceline::transport
