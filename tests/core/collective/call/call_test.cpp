#include "paceline/core/collective/call/call.h"

#include <gtest/gtest.h>

#include <set>

namespace paceline::collective {
namespace {

Call sample() {
  Call call{.operation = Operation::all_reduce,
            .op = ReduceOp::average,
            .dtype = Dtype::f32,
            .weighted = true,
            .count = 10};
  call.algorithm = "direct";
  call.weight = 2.5;
  call.output = {7, 4096};
  call.note = {std::byte{1}, std::byte{2}};
  return call;
}

// The sample with one thing changed that must be equal on all ranks.
std::vector<Call> different() {
  std::vector<Call> calls(8, sample());
  calls[0].operation = Operation::reduce_scatter;
  calls[1].op = ReduceOp::max;
  calls[2].dtype = Dtype::f64;
  calls[3].weighted = false;
  calls[4].root = 1;
  calls[5].count = 11;
  calls[6].algorithm = "ring";
  calls[7].counts = {4, 6};
  return calls;
}

TEST(Call, ComesBackFromTheWireAsItWas) {
  const Call call = sample();
  const auto back = decode_call(encode(call));
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(matches(*back, 0, call, 1));
  EXPECT_EQ(back->weight, call.weight);
  EXPECT_EQ(back->output, call.output);
  EXPECT_EQ(back->note, call.note);
  EXPECT_EQ(fingerprint(*back), fingerprint(call));
}

TEST(Call, BringsAnOfferAndItsInvitation) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{128}, kLongestInvitation}) {
    Call call = sample();
    call.offer.emplace(length, std::byte{3});
    const auto back = decode_call(encode(call));
    ASSERT_TRUE(back.has_value()) << length;
    EXPECT_EQ(back->offer, call.offer);
    EXPECT_EQ(back->note, call.note);
    EXPECT_TRUE(back->weighted);
    EXPECT_TRUE(matches(*back, 0, sample(), 1)) << "others need not offer it";
    EXPECT_EQ(fingerprint(call), fingerprint(sample()));
  }
  EXPECT_FALSE(decode_call(encode(sample()))->offer.has_value());
  constexpr std::size_t kFlags = 3;
  for (int flags = 4; flags < 256; flags *= 2) {
    auto bytes = encode(sample());
    bytes[kFlags] |= static_cast<std::byte>(flags);
    EXPECT_FALSE(decode_call(bytes).has_value()) << flags;
  }
  Call call = sample();
  call.offer.emplace(kLongestInvitation + 1, std::byte{3});
  EXPECT_FALSE(decode_call(encode(call)).has_value());
}

TEST(Call, MatchesOnlyWhatAllRanksMustAgreeIn) {
  std::set<std::uint64_t> fingerprints = {fingerprint(sample())};
  for (const Call& call : different()) {
    EXPECT_FALSE(matches(call, 0, sample(), 1)) << to_string(call);
    EXPECT_TRUE(fingerprints.insert(fingerprint(call)).second) << to_string(call);
    EXPECT_NE(to_string(call), "");
  }
  Call own = sample();
  own.weight = 0;
  own.output = {};
  own.note.clear();
  EXPECT_TRUE(matches(own, 0, sample(), 1));
  EXPECT_EQ(fingerprint(own), fingerprint(sample()));
}

TEST(Call, SaysWhatItIs) {
  EXPECT_EQ(to_string(sample()), "all_reduce f32[10] weighted average by direct");
  EXPECT_EQ(to_string(Call{.operation = Operation::barrier}), "barrier");
  EXPECT_EQ(
      to_string(Call{.operation = Operation::broadcast, .dtype = Dtype::u8, .root = 2, .count = 3}),
      "broadcast u8[3] from root 2");
}

TEST(Call, NamesRootAndCounts) {
  EXPECT_EQ(to_string(Call{.operation = Operation::gather,
                           .dtype = Dtype::i16,
                           .root = 1,
                           .count = 5,
                           .counts = {2, 0, 3}}),
            "gather i16[2+0+3] to root 1");
  EXPECT_EQ(to_string(Call{.operation = Operation::scatter, .dtype = Dtype::f64, .count = 6}),
            "scatter f64[6] from root 0");
  EXPECT_EQ(to_string(Call{.operation = Operation::all_to_all,
                           .dtype = Dtype::f32,
                           .counts = {1, 2},
                           .expected = {3, 4}}),
            "all_to_all f32[1+2] for [3+4]");
}

TEST(Call, OfAllToAllMatchesWhenEachExpectsWhatTheOtherSends) {
  const auto exchange = [](std::vector<std::uint64_t> sends, std::vector<std::uint64_t> expects) {
    return Call{.operation = Operation::all_to_all,
                .dtype = Dtype::f32,
                .counts = std::move(sends),
                .expected = std::move(expects)};
  };
  const Call first = exchange({1, 2}, {1, 3}), second = exchange({3, 5}, {2, 5});
  EXPECT_TRUE(matches(first, 0, second, 1));
  EXPECT_TRUE(matches(second, 1, first, 0));
  EXPECT_EQ(fingerprint(first), fingerprint(second));
  for (const Call& wrong :
       {exchange({4, 5}, {2, 5}), exchange({3, 5}, {1, 5}), exchange({3}, {2}), exchange({}, {})}) {
    EXPECT_FALSE(matches(first, 0, wrong, 1)) << to_string(wrong);
    EXPECT_FALSE(matches(wrong, 1, first, 0)) << to_string(wrong);
  }
  const auto back = decode_call(encode(first));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->counts, first.counts);
  EXPECT_EQ(back->expected, first.expected);
}

TEST(Call, RefusesBytesThatAreNone) {
  const auto whole = encode(sample());
  const std::size_t without_note = whole.size() - 2;
  for (std::size_t length = 0; length < without_note; ++length) {
    EXPECT_FALSE(decode_call(Bytes(whole).first(length)).has_value()) << length << " bytes";
  }
  auto wrong = whole;
  wrong[1] = std::byte{99};  // no reduction
  EXPECT_FALSE(decode_call(wrong).has_value());
  wrong = whole;
  wrong[2] = std::byte{0};  // no dtype
  EXPECT_FALSE(decode_call(wrong).has_value());
  Call chatty = sample();
  chatty.note.resize(kLongestNote + 1);
  EXPECT_FALSE(decode_call(encode(chatty)).has_value());
}

}  // namespace
}  // namespace paceline::collective
