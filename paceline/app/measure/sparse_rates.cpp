#include "paceline/app/measure/sparse_rates.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/server/server.h"
#include "paceline/core/server/sparse/share_value.h"

namespace paceline::measure {
namespace {

using server::SharedPlan;

constexpr std::size_t kRequests = 64;  // different ones, more than a server keeps lists
constexpr std::size_t kFillIds = 8192;

server::SparseTableSpec spec_of(const SparseOptions& options) {
  return {.name = "bench rows", .width = options.width, .synchrony = "asp", .rule = options.rule};
}

// Spread over 48 bits, as hashes of features are.
std::int64_t id_of(std::uint64_t row) {
  return static_cast<std::int64_t>(mix(0x726f77, row) >> 16);
}

std::vector<std::vector<std::int64_t>> requests_of(const SparseOptions& options, int rank) {
  SeededNumbers numbers(mix(0x72657175, static_cast<std::uint64_t>(rank)));
  std::vector<std::vector<std::int64_t>> requests(kRequests);
  for (auto& request : requests) {
    request.resize(options.ids);
    for (std::int64_t& id : request) id = id_of(numbers.below(options.rows));
  }
  return requests;
}

// Calls request(i) for so long, and returns how often a second.
double calls_a_second(
    double seconds, const std::function<void(std::size_t)>& request,
    const std::function<void()>& end = [] {}) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  std::size_t calls = 0;
  while (passed() < seconds) request(calls++ % kRequests);
  end();
  return static_cast<double>(calls) / passed();
}

// The table alone, as a server has it.
class BareTable {
 public:
  explicit BareTable(const SparseOptions& options)
      : shape_(server::shape_of(spec_of(options), server::TableMembers::of_servers(1, 1)).value()),
        share_(shape_) {
    for (std::size_t first = 0; first < options.rows; first += kFillIds) {
      std::vector<std::int64_t> ids;
      for (std::size_t i = first; i < std::min(first + kFillIds, options.rows); ++i)
        ids.push_back(id_of(i));
      push(server::plan_of(ids, shape_));
    }
  }

  SharedPlan plan(const std::vector<std::int64_t>& ids) const {
    return server::plan_of(ids, shape_);
  }
  void pull(const server::IdList& ids, std::byte* rows) const { share_.read(ids, rows); }
  void push(const SharedPlan& plan) {
    const auto& ids = plan->shares.front().ids;
    server::ShareChange change{.kind = server::ShareChange::Kind::taken};
    change.pushes.push_back(
        {.stamp = stamp_++,
         .rate = shape_.settings.front(),
         .rows = {ids, std::vector<std::byte>(ids->size() * shape_.value_bytes())}});
    share_.apply(std::move(change));
  }

 private:
  const server::SparseShape shape_;
  server::ShareValue share_;
  std::int64_t stamp_ = 0;
};

void fill(Job& job, server::SparseTable& table, const SparseOptions& options) {
  const auto workers = static_cast<std::size_t>(job.world_size());
  const auto rank = static_cast<std::size_t>(job.rank());
  for (std::size_t first = rank * kFillIds; first < options.rows; first += workers * kFillIds) {
    std::vector<std::int64_t> ids;
    for (std::size_t i = first; i < std::min(first + kFillIds, options.rows); ++i)
      ids.push_back(id_of(i));
    const std::vector<float> zeros(ids.size() * options.width);
    table.push(ids, const_buffer_of(zeros));
  }
  table.quiesce().wait();
}

double pulls_a_second(server::SparseTable& table, const SparseOptions& options,
                      const std::vector<std::vector<std::int64_t>>& requests) {
  constexpr std::size_t kUnderWay = 4;
  std::vector<std::vector<float>> rows(kUnderWay, std::vector<float>(options.ids * options.width));
  std::deque<server::Answer> answers;
  std::size_t turn = 0;
  const auto take_one = [&] {
    answers.front().wait();
    answers.pop_front();
  };
  return calls_a_second(
      options.seconds,
      [&](std::size_t i) {
        if (answers.size() == kUnderWay) take_one();
        answers.push_back(table.pull(requests[i], buffer_of(rows[turn++ % kUnderWay])));
      },
      [&] {
        while (!answers.empty()) take_one();
      });
}

double pushes_a_second(server::SparseTable& table, const SparseOptions& options,
                       const std::vector<std::vector<std::int64_t>>& requests) {
  const std::vector<float> gradients(options.ids * options.width, 0.001F);
  std::optional<server::Answer> last;
  return calls_a_second(
      options.seconds,
      [&](std::size_t i) { last = table.push(requests[i], const_buffer_of(gradients)); },
      [&] {
        if (last) last->wait();
      });
}

}  // namespace

SparseRates bare_sparse_rates(const SparseOptions& options) {
  BareTable table(options);
  std::vector<SharedPlan> plans;
  for (const auto& ids : requests_of(options, 0)) plans.push_back(table.plan(ids));
  std::vector<float> rows(options.ids * options.width);
  auto* const memory = reinterpret_cast<std::byte*>(rows.data());
  const auto ids = static_cast<double>(options.ids);
  SparseRates rates;
  rates.pulled = ids * calls_a_second(options.seconds, [&](std::size_t i) {
                   table.pull(*plans[i]->shares.front().ids, memory);
                 });
  rates.pushed =
      ids * calls_a_second(options.seconds, [&](std::size_t i) { table.push(plans[i]); });
  return rates;
}

SparseRates sparse_rates_of_workers(Job& job, const SparseOptions& options) {
  server::SparseTable table(job, spec_of(options));
  fill(job, table, options);
  const auto requests = requests_of(options, job.rank());
  const auto ids = static_cast<double>(options.ids);
  std::vector<double> rates;
  job.world().barrier().wait();
  rates.push_back(ids * pulls_a_second(table, options, requests));
  job.world().barrier().wait();
  rates.push_back(ids * pushes_a_second(table, options, requests));
  table.quiesce().wait();
  job.world().all_reduce(buffer_of(rates)).wait();
  return {rates[0], rates[1]};
}

}  // namespace paceline::measure
