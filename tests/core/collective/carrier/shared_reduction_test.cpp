#include "paceline/core/collective/carrier/shared_reduction.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "paceline/core/base/half.h"
#include "paceline/core/base/seed.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/seed.h"
#include "tests/support/shared_memory.h"
#include "tests/support/test_link.h"

namespace paceline::collective {
namespace {

using Mapped = SharedReduction::Memory;
using Segments = std::map<std::uint64_t, Mapped>;

constexpr std::uint64_t kData = 1, kStage = 2;

// A link to a peer whose memory is all that is asked for.
class MemoryLink final : public test::TestLink {
 public:
  MemoryLink(int peer, const Segments& segments, const std::set<int>& left)
      : TestLink(peer), segments_(segments), left_(left) {}
  Mapped memory(std::uint64_t segment) override {
    const auto found = segments_.find(segment);
    return found == segments_.end() ? nullptr : found->second;
  }
  bool withholds(std::uint64_t segment) const override {
    const auto found = segments_.find(segment);
    return found != segments_.end() && found->second == nullptr;
  }
  // A use of a peer ends unsound when it has left before, as between processes.
  bool end_use() override { return !left_.contains(peer()); }

 private:
  const Segments& segments_;
  const std::set<int>& left_;
};

struct Setting {
  int ranks;
  std::size_t count;
  Dtype dtype = Dtype::f32;
  ReduceOp op = ReduceOp::sum;
  std::uint64_t seed = 0;  // which buffers are shared, which in place, and whose turn it is
  bool reaches = false;    // hidden buffers are reached, and there are no stages
  bool unsure = false;     // whether all have what the others share
};

std::string setting_label(const Setting& s) {
  return fmt::format("{} {} x {} of {} ranks, seed {}{}", name_of(s.op), s.count, name_of(s.dtype),
                     s.ranks, s.seed, s.reaches ? ", reached" : "");
}

// All ranks of an operation in one thread, which lets them advance in any order.
class World {
 public:
  explicit World(const Setting& setting) : setting_(setting), numbers_(test::seed(setting.seed)) {
    const auto ranks = static_cast<std::size_t>(setting.ranks);
    segments_.resize(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      pages_.push_back(test::shared_memory_of(Board::page_bytes()));
      Board::initialize(pages_.back()->bytes(), transport::own_remote_memory());
    }
    for (std::size_t r = 0; r < ranks; ++r) add(static_cast<int>(r));
    wanted_.resize(bytes());
    std::vector<ConstBuffer> inputs;
    for (const auto& input : inputs_)
      inputs.push_back({input.data(), setting.count, setting.dtype});
    TreeSum(setting.ranks, bytes())(setting.op, inputs,
                                    {wanted_.data(), setting.count, setting.dtype},
                                    setting.op == ReduceOp::average ? 1.0 / setting.ranks : 1);
  }

  std::size_t bytes() const { return setting_.count * size_of(setting_.dtype); }
  std::size_t size() const { return ranks_.size(); }
  bool holds_sum(std::size_t rank) const {
    return std::memcmp(ranks_[rank].request.output.data, wanted_.data(), bytes()) == 0;
  }
  SharedReduction& begin(std::size_t rank) {
    Rank& r = ranks_[rank];
    r.reduction.emplace(*r.board, *r.members, 1, r.request, r.stage, r.read);
    return *r.reduction;
  }
  // It has returned: its caller may do with its buffers what he likes.
  void spoil(std::size_t rank) {
    const Request& request = ranks_[rank].request;
    std::memset(const_cast<std::byte*>(request.input.data), 0x5A, bytes());
    std::memset(request.output.data, 0xA5, bytes());
  }
  bool is_spoilt(std::size_t rank) const {
    const Bytes output = ranks_[rank].request.output.bytes();
    return std::ranges::all_of(output, [](std::byte b) { return b == std::byte{0xA5}; });
  }
  bool begins_with_sum(const std::byte* output, std::size_t bytes) const {
    return std::memcmp(output, wanted_.data(), bytes) == 0;
  }
  // The call of the rank has failed, and its caller may do the same.
  void leave(int rank) {
    left_->insert(rank);
    spoil(static_cast<std::size_t>(rank));
  }
  std::span<std::byte> output(std::size_t rank) { return ranks_[rank].request.output.bytes(); }
  Board& board(std::size_t rank) { return *ranks_[rank].board; }
  SharedReduction::Offer& offer(std::size_t rank) { return ranks_[rank].offer; }
  void post(std::size_t rank) {
    ranks_[rank].board->post(1, 7, std::as_bytes(std::span(&ranks_[rank].offer, 1)));
  }
  void forget(std::size_t rank, std::uint64_t segment) { segments_[rank].erase(segment); }
  void withhold(std::size_t rank, std::uint64_t segment) { segments_[rank][segment] = nullptr; }
  void know(std::size_t rank, std::uint64_t segment, std::size_t bytes) {
    segments_[rank][segment] = test::shared_memory_of(bytes);
  }
  SeededNumbers& numbers() { return numbers_; }

 private:
  struct Rank {
    std::unique_ptr<Members> members;
    std::unique_ptr<Board> board;
    Mapped data, stage;
    std::vector<std::byte> ordinary, read;
    SharedReduction::Offer offer;
    Request request;
    std::optional<SharedReduction> reduction;
  };

  std::vector<std::byte> random_values() {
    std::vector<float> values(setting_.count);
    for (float& v : values) v = static_cast<float>(numbers_.below(2000)) / 7 - 100;
    std::vector<std::byte> bytes(this->bytes());
    if (setting_.dtype == Dtype::f32) {
      std::memcpy(bytes.data(), values.data(), bytes.size());
    } else if (is_half(setting_.dtype)) {
      const ConstBuffer source = const_buffer_of(values);
      accumulate(ReduceOp::max, source, source, {bytes.data(), setting_.count, setting_.dtype}, 1);
    } else {
      for (std::byte& b : bytes) b = static_cast<std::byte>(numbers_.below(64));
    }
    return bytes;
  }

  void add(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    const auto generation = std::make_shared<membership::Generation>(
        membership::GenerationIdentity{.rank = rank, .size = setting_.ranks});
    for (int peer = 0; peer < setting_.ranks; ++peer) {
      if (peer == rank) continue;
      generation->attach(peer, std::make_unique<MemoryLink>(
                                   peer, segments_[static_cast<std::size_t>(peer)], *left_));
    }
    Rank& r = ranks_.emplace_back();
    r.members = std::make_unique<Members>(generation, Members::all_of(*generation));
    r.board = std::make_unique<Board>(rank, pages_);
    r.data = test::shared_memory_of(2 * bytes() + 256);
    r.stage = test::shared_memory_of(SharedReduction::kStageBytes);
    r.ordinary.resize(2 * bytes() + 256);
    segments_[at] = {{kData, r.data}, {kStage, r.stage}};

    const bool in_place = numbers_.below(2) == 0;
    const bool shares_input = numbers_.below(2) == 0;
    const bool shares_output = in_place ? shares_input : numbers_.below(2) == 0;
    const std::size_t input_at = 64 * numbers_.below(2),
                      output_at = in_place ? input_at : 128 + bytes();
    std::byte* const input = (shares_input ? r.data->bytes().data() : r.ordinary.data()) + input_at;
    std::byte* const output =
        (shares_output ? r.data->bytes().data() : r.ordinary.data()) + output_at;
    inputs_.push_back(random_values());
    std::memcpy(input, inputs_.back().data(), bytes());
    r.request.call = {.operation = Operation::all_reduce,
                      .op = setting_.op,
                      .dtype = setting_.dtype,
                      .count = setting_.count};
    r.request.input = {input, setting_.count, setting_.dtype};
    r.request.output = {output, setting_.count, setting_.dtype};
    if (shares_input) r.offer.input = {kData, input_at};
    if (shares_output) r.offer.output = {kData, output_at};
    // All of it, all but its edges, or nothing.
    const std::uint64_t edge = std::array{0, 0, 1, 200, 1 << 30}[numbers_.below(5)];
    const std::uint64_t begin = output_at + edge, end = output_at + bytes();
    if (shares_output) r.offer.writable = {begin, end - std::min<std::uint64_t>(edge, end)};
    r.offer.is_had = !setting_.unsure;
    r.offer.reaches = setting_.reaches && r.board->reaches_all();
    r.offer.input_address = reinterpret_cast<std::uint64_t>(input);
    r.offer.output_address = reinterpret_cast<std::uint64_t>(output);
    if (r.offer.needs_stage() && !setting_.reaches) r.offer.stage = kStage;
    else r.stage = nullptr;
  }

  const Setting setting_;
  SeededNumbers numbers_;
  std::vector<Segments> segments_;
  std::unique_ptr<std::set<int>> left_ = std::make_unique<std::set<int>>();
  std::vector<Mapped> pages_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<std::byte> wanted_;
};

// A rank that is through has the sum, though the others are not, and spoils its buffers at once. A
// rank that waits knows for which ranks.
void run(const Setting& setting) {
  World world(setting);
  for (std::size_t r = 0; r < world.size(); ++r) world.post(r);
  std::vector<SharedReduction*> running;
  std::vector<std::size_t> left;
  for (std::size_t r = 0; r < world.size(); ++r) {
    running.push_back(&world.begin(r));
    left.push_back(r);
  }
  for (int idle = 0; !left.empty();) {
    ASSERT_LT(idle, 1000) << "nobody can go on: " << setting_label(setting);
    const std::size_t turn = world.numbers().below(left.size()), rank = left[turn];
    const auto progress = running[rank]->advance();
    ASSERT_TRUE(progress) << progress.error().what;
    const bool waits = progress.value() == CallProgress::soon;
    ASSERT_FALSE(waits && running[rank]->awaited().empty()) << setting_label(setting);
    idle = waits ? idle + 1 : 0;
    if (progress.value() != CallProgress::done) continue;
    ASSERT_TRUE(world.holds_sum(rank)) << "rank " << rank << ": " << setting_label(setting);
    world.spoil(rank);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(turn));
  }
}

TEST(SharedReduction, GivesTheBalancedTreesBitsInEveryOrderOfEvents) {
  std::uint64_t seed = 0;
  const int rounds = test::kSanitized ? 1 : 8;
  for (int ranks = 2; ranks <= 6; ++ranks) {
    // Pieces of this length; the last ones, beside the ends of pieces and of all places.
    const std::size_t piece =
        SharedReduction::kStageBytes / 4 / static_cast<std::size_t>(ranks) / 4;
    const auto p = static_cast<std::size_t>(ranks);
    for (const std::size_t count :
         {std::size_t{1}, p, 16 * p + 1, piece - 1, p * piece, p * piece + 17, 6 * p * piece - 5}) {
      for (int round = 0; round < rounds; ++round)
        ASSERT_NO_FATAL_FAILURE(
            run({.ranks = ranks, .count = count, .seed = ++seed, .unsure = round % 2 == 1}));
    }
  }
}

// Beside the ends of pieces, whose sums are written over them or beside them.
TEST(SharedReduction, GivesTheSameWhereHiddenBuffersAreReached) {
  std::uint64_t seed = 500;
  for (int ranks = 2; ranks <= (test::kSanitized ? 3 : 6); ++ranks) {
    const auto p = static_cast<std::size_t>(ranks);
    const std::size_t piece = SharedReduction::kReadBytes / 4 / (p - 1);
    for (const std::size_t count :
         {std::size_t{1}, 16 * p + 1, p * piece, p * piece + 17, 3 * p * piece - 5}) {
      for (int round = 0; round < 3; ++round) {
        ASSERT_NO_FATAL_FAILURE(
            run({.ranks = ranks, .count = count, .seed = ++seed, .reaches = true}));
      }
    }
  }
  ASSERT_NO_FATAL_FAILURE(run({.ranks = 3,
                               .count = 1 << 20,
                               .dtype = Dtype::bf16,
                               .op = ReduceOp::average,
                               .seed = 1,
                               .reaches = true}));
}

TEST(SharedReduction, RoundsOnceAndScalesAveragesInEveryType) {
  std::uint64_t seed = 1000;
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::i64, Dtype::u8}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::bor}) {
      if (!can_reduce(op, dtype)) continue;
      for (int ranks = 2; ranks <= 5; ++ranks)
        ASSERT_NO_FATAL_FAILURE(run({ranks, 10007, dtype, op, ++seed}));
    }
  }
}

// A seed with which both share both their buffers, so that rank 1 can lie about them and none waits
// for a stage.
World world_in_which_both_share(bool unsure = false) {
  for (std::uint64_t seed = 0;; ++seed) {
    World world({.ranks = 2, .count = 5000, .seed = seed, .unsure = unsure});
    if (!world.offer(0).needs_stage() && !world.offer(1).needs_stage()) return world;
  }
}

TEST(SharedReduction, WaitsForMemoryThatIsNotKnownYet) {
  World world = world_in_which_both_share(true);
  world.post(0);
  world.post(1);
  SharedReduction &first = world.begin(0), &second = world.begin(1);
  world.forget(1, kData);
  EXPECT_EQ(first.advance().value(), CallProgress::soon);
  EXPECT_EQ(first.awaited(), std::vector{1});
  EXPECT_EQ(second.advance().value(), CallProgress::moved);
  EXPECT_EQ(second.advance().value(), CallProgress::soon)
      << "the first one may not come to have it";
  EXPECT_EQ(second.awaited(), std::vector{0});
  world.know(1, kData, 1 << 20);
  EXPECT_EQ(first.advance().value(), CallProgress::moved);
  EXPECT_EQ(second.advance().value(), CallProgress::moved);
}

TEST(SharedReduction, LeavesBeforeItTouchesAnythingWhereARankWillNotHaveTheMemory) {
  World world = world_in_which_both_share(true);
  const std::vector<std::byte> before(world.output(0).begin(), world.output(0).end());
  world.post(0);
  world.post(1);
  SharedReduction &first = world.begin(0), &second = world.begin(1);
  world.withhold(1, kData);
  EXPECT_EQ(second.advance().value(), CallProgress::moved);
  EXPECT_EQ(second.advance().value(), CallProgress::soon);
  EXPECT_EQ(first.advance().value(), CallProgress::moved) << "it tells so";
  EXPECT_EQ(first.withheld(), std::vector{1});
  EXPECT_EQ(second.advance().value(), CallProgress::by_messages);
  EXPECT_EQ(first.advance().value(), CallProgress::by_messages);
  EXPECT_TRUE(std::ranges::equal(world.output(0), before));
}

TEST(SharedReduction, MemoryThatIsGoneThoughAllHadItIsAnErrorAndNoWait) {
  World world = world_in_which_both_share();
  world.post(0);
  world.post(1);
  world.forget(1, kData);
  const auto refused = world.begin(0).advance();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().ranks, std::vector{1});
}

TEST(SharedReduction, ABufferOutsideOfWhatItsRankSharesIsRefusedAndNamed) {
  for (const std::uint64_t offset : {std::uint64_t{1} << 20, ~std::uint64_t{0}}) {
    World world = world_in_which_both_share();
    world.offer(1).output.offset = offset;
    world.post(0);
    world.post(1);
    const auto refused = world.begin(0).advance();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().ranks, std::vector{1});
  }
}

// Rank 1 waits for the sums of rank 0's chunk, whose inputs rank 0 has spoilt.
TEST(SharedReduction, APieceThatWasReadFromARankThatHasLeftIsNotCounted) {
  for (const bool reaches : {false, true}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      World world({.ranks = 3, .count = 50'000, .seed = seed, .reaches = reaches});
      for (std::size_t r = 0; r < 3; ++r) world.post(r);
      world.begin(0);
      SharedReduction& second = world.begin(1);
      world.leave(0);
      for (int i = 0; i < 20; ++i) ASSERT_TRUE(second.advance());
      EXPECT_EQ(world.board(2).counted(1, 1, Board::Counter::reduced), 0U) << seed;
      EXPECT_EQ(world.board(2).counted(1, 1, Board::Counter::taken), 0U) << seed;
    }
  }
}

// Edges cannot be taken back from peers, and other bytes of their owner lie beside them.
TEST(SharedReduction, TheEdgesOfAnOutputAreWrittenByItsRankAlone) {
  World world = world_in_which_both_share();
  const std::uint64_t begin = world.offer(1).output.offset;
  world.offer(1).writable = {begin + 100, begin + world.bytes() - 60};
  world.post(0);
  world.post(1);
  SharedReduction &first = world.begin(0), &second = world.begin(1);
  const std::vector<std::byte> before(world.output(1).begin(), world.output(1).end());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(first.advance());
  EXPECT_TRUE(std::ranges::equal(world.output(1).first(100), std::span(before).first(100)));
  EXPECT_FALSE(
      std::ranges::equal(world.output(1).subspan(100, 100), std::span(before).subspan(100, 100)));
  for (int i = 0; i < 100 && second.advance().value() != CallProgress::done; ++i)
    ASSERT_TRUE(first.advance());
  EXPECT_TRUE(world.holds_sum(1));
}

// A group that waits looks at it, to tell a stall from work.
TEST(SharedReduction, MovesWithEachPieceOfAnyRank) {
  World world = world_in_which_both_share();
  world.post(0);
  world.post(1);
  SharedReduction &first = world.begin(0), &second = world.begin(1);
  const std::uint64_t before = first.movement();
  ASSERT_EQ(second.advance().value(), CallProgress::moved);
  const std::uint64_t after = first.movement();
  EXPECT_NE(before, after);
  ASSERT_NE(first.advance().value(), CallProgress::soon);
  EXPECT_NE(first.movement(), after);
}

// A world in which rank 1 hides its buffers, rank 0 has one for both, and all reach.
World world_in_which_rank_1_hides() {
  for (std::uint64_t seed = 0;; ++seed) {
    World world({.ranks = 2, .count = 200'000, .seed = seed, .reaches = true});
    const auto &first = world.offer(0), &second = world.offer(1);
    if (second.input.segment == 0 && second.output.segment == 0 &&
        first.input_address == first.output_address)
      return world;
  }
}

// Memory that no process can access until it is opened.
class ClosedMemory {
 public:
  explicit ClosedMemory(std::size_t bytes)
      : bytes_(bytes), at_(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~ClosedMemory() { ::munmap(at_, bytes_); }
  ClosedMemory(const ClosedMemory&) = delete;
  ClosedMemory& operator=(const ClosedMemory&) = delete;
  const std::byte* data() const { return static_cast<const std::byte*>(at_); }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(at_); }
  bool open() { return ::mprotect(at_, bytes_, PROT_READ | PROT_WRITE) == 0; }

 private:
  const std::size_t bytes_;
  void* const at_;
};

TEST(SharedReduction, WaitsForAHiddenBufferThatIsGoneForWhoHidesItWillSayWhy) {
  for (const bool is_input : {true, false}) {
    World world = world_in_which_rank_1_hides();
    ClosedMemory gone(world.bytes());
    (is_input ? world.offer(1).input_address : world.offer(1).output_address) = gone.address();
    world.post(0);
    world.post(1);
    SharedReduction& first = world.begin(0);
    EXPECT_EQ(first.advance().value(), CallProgress::soon);
    EXPECT_EQ(first.awaited(), std::vector{1});
    ASSERT_TRUE(gone.open());
    EXPECT_EQ(first.advance().value(), CallProgress::moved);
  }
}

// Its sums lie where its input did.
TEST(SharedReduction, SumsAPieceUpOnceHoweverOftenItIsWritten) {
  World world = world_in_which_rank_1_hides();
  ClosedMemory gone(world.bytes());
  world.offer(1).output_address = gone.address();
  world.post(0);
  world.post(1);
  SharedReduction& first = world.begin(0);
  for (int attempt = 0; attempt < 3; ++attempt)
    EXPECT_EQ(first.advance().value(), CallProgress::soon);
  ASSERT_TRUE(gone.open());
  EXPECT_EQ(first.advance().value(), CallProgress::moved);
  EXPECT_TRUE(world.begins_with_sum(gone.data(), 4096));
}

TEST(SharedReduction, WritesNothingToARankThatHasForbiddenIt) {
  World world = world_in_which_rank_1_hides();
  world.post(0);
  world.post(1);
  SharedReduction& first = world.begin(0);
  ASSERT_TRUE(world.board(1).forbid_writes());
  world.spoil(1);
  EXPECT_EQ(first.advance().value(), CallProgress::soon);
  EXPECT_TRUE(world.is_spoilt(1));
}

TEST(SharedReduction, StagesForAllWhereOneCannotReachOrBeReached) {
  for (const auto& spoil : std::vector<std::function<void(SharedReduction::Offer&)>>{
           [](SharedReduction::Offer& offer) { offer.reaches = false; },
           [](SharedReduction::Offer& offer) { offer.input_address = 0; }}) {
    World world = world_in_which_rank_1_hides();
    spoil(world.offer(1));
    world.post(0);
    world.post(1);
    for (std::size_t r = 0; r < 2; ++r)
      EXPECT_TRUE(world.begin(r).is_impossible()) << "there are no stages here";
  }
}

TEST(SharedReduction, IsImpossibleForAllWhereOneLacksTheStageThatItNeeds) {
  World world({.ranks = 3, .count = 100});
  world.offer(1) = {};
  for (std::size_t r = 0; r < 3; ++r) world.post(r);
  for (std::size_t r = 0; r < 3; ++r) EXPECT_TRUE(world.begin(r).is_impossible()) << r;
}

}  // namespace
}  // namespace paceline::collective
