#include "paceline/core/server/machine/consensus_rounds.h"

#include <algorithm>
#include <utility>

namespace paceline::server {

using transport::WireReader;
using transport::WireWriter;

void ConsensusRounds::give(int worker, std::uint64_t version, Bytes mean) {
  versions_[worker] = version;
  means_.try_emplace(version, mean.begin(), mean.end());
}

void ConsensusRounds::forget_means() {
  std::erase_if(means_, [&](const auto& one) {
    return std::ranges::none_of(versions_,
                                [&](const auto& worker) { return worker.second == one.first; });
  });
}

void ConsensusRounds::begin(const std::vector<int>& workers, std::uint64_t version, Bytes mean) {
  means_.clear();
  for (auto& [worker, has] : versions_) give(worker, version, mean);
  for (const int worker : workers)
    if (versions_.contains(worker)) contribute(worker, {mean.begin(), mean.end()});
}

void ConsensusRounds::join(int worker, std::uint64_t version, Bytes mean) {
  barrier_.join(worker);
  give(worker, version, mean);
}

void ConsensusRounds::leave(int worker) {
  barrier_.leave(worker);
  contributions_.erase(worker);
  versions_.erase(worker);
  forget_means();
}

void ConsensusRounds::wake(std::uint64_t version, Bytes mean) {
  barrier_.wake();
  for (auto& [worker, has] : versions_) give(worker, version, mean);
  forget_means();
  number_ = 0;
  log_.clear();
}

void ConsensusRounds::contribute(int worker, std::vector<std::byte> values) {
  contributions_[worker] = std::move(values);
}

void ConsensusRounds::close(const std::vector<int>& workers, std::uint64_t version, Bytes mean) {
  barrier_.pass(workers);
  for (const int worker : workers) give(worker, version, mean);
  forget_means();
  log_.push_back({++number_, {workers.begin(), workers.end()}});
  if (log_.size() > most_last_rounds()) log_.pop_front();
}

// --- as bytes ------------------------------------------------------------------------------------

void ConsensusRounds::write(WireWriter& writer) const {
  writer.integer(number_);
  writer.integer(static_cast<std::uint32_t>(versions_.size()))
      .integer(static_cast<std::uint32_t>(contributions_.size()))
      .integer(static_cast<std::uint32_t>(means_.size()))
      .integer(static_cast<std::uint32_t>(log_.size()));
  for (const auto& [worker, version] : versions_) {
    const auto& place = barrier_.workers().at(worker);
    writer.integer(static_cast<std::int32_t>(worker))
        .integer(version)
        .integer(static_cast<std::uint8_t>(place.has_arrived))
        .integer(static_cast<std::uint8_t>(place.rests))
        .integer(static_cast<std::int32_t>(place.age));
  }
  for (const auto& [worker, values] : contributions_)
    writer.integer(static_cast<std::int32_t>(worker)).raw(values);
  for (const auto& [version, mean] : means_) writer.integer(version).raw(mean);
  for (const Round& round : log_) write_round(writer, round);
}

bool ConsensusRounds::read(WireReader& reader, std::size_t bytes) {
  *this = ConsensusRounds(pace_);
  number_ = reader.integer<std::uint64_t>();
  const bool has_workers = read_workers(reader, bytes);
  return has_workers && std::ranges::all_of(versions_, [&](const auto& one) {
           return means_.contains(one.second);
         });
}

bool ConsensusRounds::read_workers(WireReader& reader, std::size_t bytes) {
  constexpr std::size_t kWorkerBytes = 18;
  const auto workers = reader.integer<std::uint32_t>(),
             contributions = reader.integer<std::uint32_t>(),
             means = reader.integer<std::uint32_t>(), rounds = reader.integer<std::uint32_t>();
  const auto read_values = [&] {
    const Bytes values = reader.raw(bytes);
    return std::vector<std::byte>(values.begin(), values.end());
  };
  if (!reader.ok() || reader.rest().size() / kWorkerBytes < workers) return false;
  std::map<int, coordination::PartialBarrier::Worker> places;
  for (std::uint32_t i = 0; i < workers; ++i) {
    const auto worker = reader.integer<std::int32_t>();
    versions_[worker] = reader.integer<std::uint64_t>();
    auto& place = places[worker];
    place.has_arrived = reader.integer<std::uint8_t>() != 0;
    place.rests = reader.integer<std::uint8_t>() != 0;
    place.age = reader.integer<std::int32_t>();
  }
  barrier_.set_workers(std::move(places));
  for (std::uint32_t i = 0; i < contributions && reader.ok(); ++i) {
    const auto worker = reader.integer<std::int32_t>();
    if (!versions_.contains(worker)) return false;
    contributions_[worker] = read_values();
  }
  for (std::uint32_t i = 0; i < means && reader.ok(); ++i) {
    const auto version = reader.integer<std::uint64_t>();
    means_[version] = read_values();
  }
  for (std::uint32_t i = 0; i < rounds && reader.ok(); ++i)
    if (!read_round(reader, log_.emplace_back())) return false;
  return reader.ok();
}

}  // namespace paceline::server
