// Ranks that do not have the same number of batches (docs/guide/data_parallel.md).
//
//   for (auto turn : parallel.join(loader)) {   // as long as any rank has a batch
//     optimizer.zero_grad();
//     if (turn) {                               // this rank still has one
//       parallel.weight(turn->size());          // if never said: 1 for a rank that has a batch
//       loss(model, *turn).backward();
//     }
//     parallel.step(optimizer);                 // always: without a batch as a shadow, of weight 0
//   }
//
// A turn is one step. To accumulate over several batches let `loader` hand out windows of batches,
// and run all passes of a window in its turn.
// There is one turn more than the longest loader has batches: the one in which all ranks learn that
// nobody has one, and step() does nothing. Shadows apply the same updates, so nothing has to be
// copied at the end. With layers that mix ranks (SyncBatchNorm) a shadow runs forward and backward
// on empty batches, as often as the others do in the turn. With buffers such as running statistics
// use BufferMode::average.
#pragma once

#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "paceline/torch/parallel/data_parallel.h"
#include "paceline/torch/replica/rank_weight.h"

namespace paceline {

// The turns of one loop, without the batches. On its end, also by an exception, the weight is again
// what it was before the loop.
class JoinedLoop {
 public:
  explicit JoinedLoop(DataParallel& parallel);
  ~JoinedLoop();
  JoinedLoop(const JoinedLoop&) = delete;
  JoinedLoop& operator=(const JoinedLoop&) = delete;

  void begin_turn(bool has_batch);
  // Whether there is another turn. THROWS Error (misuse): a turn without a batch ended without a
  // step, so that the other ranks wait.
  bool end_turn();

 private:
  DataParallel& parallel_;
  const std::weak_ptr<const void> life_;  // of it
  replica::RankWeight before_;
  std::int64_t steps_ = 0;
  bool has_batch_ = false;
};

template <typename Iterator>
class Turn {
 public:
  Turn() = default;
  explicit Turn(Iterator& batch) : batch_(&batch) {}
  explicit operator bool() const { return batch_ != nullptr; }
  decltype(auto) operator*() const { return **batch_; }
  auto operator->() const { return &**batch_; }

 private:
  Iterator* batch_ = nullptr;
};

// The result of DataParallel::join(): a range to be walked once.
template <typename Loader>
class Join {
  using Position = decltype(std::begin(std::declval<std::remove_reference_t<Loader>&>()));

 public:
  Join(DataParallel& parallel, Loader&& loader)
      : loader_(std::forward<Loader>(loader)), loop_(parallel) {}

  class Iterator {
   public:
    explicit Iterator(Join& join) : join_(&join) {}
    Turn<Position> operator*() const {
      return join_->has_batch() ? Turn<Position>(*join_->at_) : Turn<Position>();
    }
    Iterator& operator++() {
      join_->advance();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return join_->over_; }

   private:
    Join* join_;
  };

  Iterator begin() {
    at_.emplace(std::begin(loader_));
    loop_.begin_turn(has_batch());
    return Iterator(*this);
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  bool has_batch() { return *at_ != std::end(loader_); }
  void advance() {
    over_ = !loop_.end_turn();
    if (over_) return;
    if (has_batch()) ++*at_;
    loop_.begin_turn(has_batch());
  }

  Loader loader_;  // a reference where join() was given one
  JoinedLoop loop_;
  std::optional<Position> at_;
  bool over_ = false;
};

template <typename Loader>
Join<Loader> DataParallel::join(Loader&& loader) {
  return Join<Loader>(*this, std::forward<Loader>(loader));
}

}  // namespace paceline
