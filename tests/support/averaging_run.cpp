#include "tests/support/averaging_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "paceline/core/base/half.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/compress/methods/compression.h"
#include "paceline/core/compress/payload/message.h"
#include "tests/support/extremes.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

using compress::Exchange;
using Kind = Exchange::Kind;
using Values = std::vector<std::byte>;

Values sum_of(const std::vector<Values>& values, ReduceOp op, Dtype dtype, std::size_t from,
              std::size_t to) {
  if (to - from == 1) return values[from];
  std::size_t half = 1;
  while (2 * half < to - from) half *= 2;
  Values left = sum_of(values, op, dtype, from, from + half);
  reduce(op, dtype, left, sum_of(values, op, dtype, from + half, to), left);
  return left;
}

Values reduced(const std::vector<Exchange>& exchanges) {
  const Exchange& first = exchanges.front();
  const Dtype dtype = first.input.dtype;
  const bool narrow_type = is_half(dtype);
  std::vector<Values> inputs;
  for (const Exchange& exchange : exchanges) {
    Values& input = inputs.emplace_back(exchange.input.size_bytes() * (narrow_type ? 2 : 1));
    if (narrow_type) {
      std::vector<float> wide(exchange.input.count);
      widen(dtype, exchange.input.bytes(), wide);
      std::ranges::copy(std::as_bytes(std::span(wide)), input.begin());
    } else {
      std::ranges::copy(exchange.input.bytes(), input.begin());
    }
  }
  const bool average = first.op == ReduceOp::average;
  const Dtype inner = narrow_type ? Dtype::f32 : dtype;
  Values sum = sum_of(inputs, average ? ReduceOp::sum : first.op, inner, 0, inputs.size());
  if (average) scale(inner, sum, 1.0 / static_cast<double>(inputs.size()));
  if (!narrow_type) return sum;
  std::vector<float> wide(first.input.count);
  if (!wide.empty()) std::memcpy(wide.data(), sum.data(), sum.size());
  Values narrowed(first.input.size_bytes());
  narrow(dtype, wide, narrowed);
  return narrowed;
}

void expect_alike(const std::vector<Exchange>& exchanges) {
  const Exchange& first = exchanges.front();
  for (const Exchange& exchange : exchanges) {
    ASSERT_EQ(exchange.kind, first.kind);
    ASSERT_EQ(exchange.input.dtype, first.input.dtype);
    ASSERT_EQ(exchange.root, first.root);
    if (first.kind == Kind::all_reduce) {
      ASSERT_EQ(exchange.op, first.op);
      ASSERT_EQ(exchange.input.count, first.input.count);
      ASSERT_EQ(exchange.output.count, first.input.count);
    } else if (first.kind == Kind::all_gather) {
      ASSERT_EQ(exchange.output.count, exchange.input.count * exchanges.size());
    }
  }
}

Values copy_of(Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}

void put(Bytes bytes, MutableBytes into) {
  ASSERT_EQ(bytes.size(), into.size()) << "what is sent and what is received differ in length";
  std::ranges::copy(bytes, into.begin());
}

std::size_t sum_before(const std::vector<std::size_t>& counts, std::size_t index) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < index; ++i) sum += counts[i];
  return sum;
}

std::size_t payload_of_message(Bytes message) {
  const auto opened = compress::open(message);
  return opened ? opened.value().payload.size() : 0;
}

}  // namespace

void carry_out(std::vector<Exchange>& exchanges) {
  expect_alike(exchanges);
  std::vector<Values> inputs;
  for (const Exchange& exchange : exchanges) inputs.push_back(copy_of(exchange.input.bytes()));
  const Kind kind = exchanges.front().kind;
  const Values sum = kind == Kind::all_reduce ? reduced(exchanges) : Values();
  for (std::size_t r = 0; r < exchanges.size(); ++r) {
    Exchange& to = exchanges[r];
    const MutableBytes into = to.output.bytes();
    if (kind == Kind::all_reduce) {
      put(sum, into);
    } else if (kind == Kind::broadcast) {
      put(inputs[static_cast<std::size_t>(to.root)], into);
    } else if (kind == Kind::all_gather) {
      for (std::size_t s = 0; s < inputs.size(); ++s)
        put(inputs[s], into.subspan(s * inputs[s].size(), inputs[s].size()));
    } else if (kind == Kind::swap) {
      if (to.from < 0) {
        EXPECT_TRUE(into.empty());
        continue;
      }
      const auto from = static_cast<std::size_t>(to.from);
      ASSERT_EQ(exchanges[from].to, static_cast<int>(r)) << "nobody sends what is waited for";
      put(inputs[from], into);
    } else {
      for (std::size_t s = 0; s < inputs.size(); ++s) {
        const std::size_t offset = sum_before(exchanges[s].send_counts, r);
        put(Bytes(inputs[s]).subspan(offset, exchanges[s].send_counts[r]),
            into.subspan(sum_before(to.receive_counts, s), to.receive_counts[s]));
      }
    }
  }
}

AveragingRun::AveragingRun(int ranks, const Make& make) {
  for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(make(rank));
}

void AveragingRun::count(const std::vector<Exchange>& exchanges) {
  kinds.push_back(exchanges.front().kind);
  for (std::size_t r = 0; r < exchanges.size(); ++r) {
    const Exchange& exchange = exchanges[r];
    const Bytes input = exchange.input.bytes();
    switch (exchange.kind) {
      case Kind::all_reduce:
        if (r == 0) reduced_bytes += input.size();
        break;
      case Kind::swap: payload_bytes += payload_of_message(input); break;
      case Kind::broadcast:
        if (static_cast<int>(r) != exchange.root) break;
        [[fallthrough]];
      case Kind::all_gather:
        payload_bytes += payload_of_message(input) * (exchanges.size() - 1);
        break;
      case Kind::all_to_all:
        for (std::size_t to = 0; to < exchanges.size(); ++to) {
          if (to != r)
            payload_bytes +=
                payload_of_message(input.subspan(sum_before(exchange.send_counts, to)));
        }
    }
  }
}

AveragingRun::Outcome AveragingRun::step(Gradients gradients, std::uint32_t number) {
  Outcome outcome;
  kinds.clear();
  payload_bytes = reduced_bytes = 0;
  std::vector<Exchange> exchanges;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (auto exchange = ranks_[r]->begin(gradients[r], number))
      exchanges.push_back(std::move(*exchange));
  }
  while (!exchanges.empty()) {
    EXPECT_EQ(exchanges.size(), ranks_.size()) << "some ranks are through before the others";
    if (exchanges.size() != ranks_.size()) return outcome;
    count(exchanges);
    carry_out(exchanges);
    if (on_carried_out) on_carried_out(exchanges);
    exchanges.clear();
    for (auto& rank : ranks_) {
      auto next = rank->next();
      if (!next) outcome.failure = next.error();
      else if (*next) exchanges.push_back(std::move(**next));
    }
    if (outcome.failure) return outcome;
  }
  outcome.overflowed = ranks_.front()->overflowed();
  for (auto& rank : ranks_)
    EXPECT_EQ(rank->overflowed(), outcome.overflowed) << "ranks disagree about the overflow";
  if (outcome.overflowed) return outcome;
  for (auto& rank : ranks_) {
    if (const auto done = rank->finish(); !done) outcome.failure = done.error();
  }
  if (!outcome.failure) outcome.means = std::move(gradients);
  return outcome;
}

std::vector<float> AveragingRun::values(int rank, std::string_view name) {
  for (const compress::StateView& view : (*this)[rank].state())
    if (view.name == name) return {view.values.begin(), view.values.end()};
  ADD_FAILURE() << "no state is called " << name;
  return {};
}

std::vector<std::vector<float>> AveragingRun::state(int rank) {
  std::vector<std::vector<float>> all;
  for (const compress::StateView& view : (*this)[rank].state())
    all.emplace_back(view.values.begin(), view.values.end());
  return all;
}

void AveragingRun::restore(int rank, const std::vector<std::vector<float>>& state) {
  const auto views = (*this)[rank].state();
  ASSERT_EQ(views.size(), state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    ASSERT_EQ(views[i].values.size(), state[i].size());
    std::ranges::copy(state[i], views[i].values.begin());
  }
}

AveragingRun run_of(std::string_view compression, int ranks, std::size_t rows,
                    std::size_t columns) {
  const auto parsed = compress::parse_compression(compression, compress::built_in_methods());
  const compress::Compression& chosen = parsed.value();
  return {ranks, [&](int rank) {
            return chosen.method.make({.tensor = 5,
                                       .rows = rows,
                                       .columns = columns,
                                       .rank = rank,
                                       .ranks = ranks,
                                       .seed = 7},
                                      chosen.settings);
          }};
}

double lost_over(int steps, AveragingRun& run, int ranks, std::size_t elements,
                 const Pending& pending) {
  std::vector<double> balance(elements);
  for (int t = 0; t < steps; ++t) {
    const Gradients gradients = gradients_on_grid(ranks, elements, static_cast<std::uint64_t>(t));
    const auto mean = mean_of(gradients);
    const auto outcome = run.step(gradients, static_cast<std::uint32_t>(t));
    EXPECT_FALSE(outcome.means.empty());
    if (outcome.means.empty()) return INFINITY;
    for (std::size_t i = 0; i < elements; ++i)
      balance[i] += static_cast<double>(outcome.means.front()[i]) - mean[i];
  }
  const auto left = pending(run);
  double lost = 0;
  for (std::size_t i = 0; i < elements; ++i) lost = larger(lost, std::abs(balance[i] + left[i]));
  return lost;
}

Pending mean_state(int ranks, std::string name) {
  return [ranks, name = std::move(name)](AveragingRun& run) {
    Gradients values;
    for (int rank = 0; rank < ranks; ++rank) values.push_back(run.values(rank, name));
    return mean_of(values);
  };
}

std::vector<double> mean_of(const Gradients& gradients) {
  std::vector<double> mean(gradients.front().size());
  for (const auto& gradient : gradients)
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(gradient[i]);
  for (double& value : mean) value /= static_cast<double>(gradients.size());
  return mean;
}

Gradients gradients_of(int ranks, std::size_t elements, std::uint64_t seed) {
  return fixed_gradients_of(ranks, elements, test::seed(seed));
}

Gradients fixed_gradients_of(int ranks, std::size_t elements, std::uint64_t seed) {
  SeededNumbers numbers(seed);
  Gradients gradients(static_cast<std::size_t>(ranks), std::vector<float>(elements));
  for (auto& gradient : gradients) {
    for (float& value : gradient) {
      double sum = -6;
      for (int i = 0; i < 12; ++i) sum += numbers.unit();
      value = static_cast<float>(sum);
    }
  }
  return gradients;
}

Gradients gradients_on_grid(int ranks, std::size_t elements, std::uint64_t seed) {
  Gradients gradients = gradients_of(ranks, elements, seed);
  for (auto& gradient : gradients)
    for (float& value : gradient) value = std::round(value * 1024) / 1024;
  return gradients;
}

}  // namespace paceline::test
