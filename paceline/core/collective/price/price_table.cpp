#include "paceline/core/collective/price/price_table.h"

#include <algorithm>

#include "paceline/core/transport/shared/shared_link.h"

namespace paceline::collective {

using Payer = Timetable::Payer;
using topology::LinkClass;

PriceTable::PriceTable(const Partition& piece, std::size_t element_bytes,
                       const topology::Topology& topology, const topology::Profile& profile)
    : piece_(piece),
      element_bytes_(element_bytes),
      topology_(topology),
      profile_(profile),
      host_of_(topology.host_of_ranks()),
      core_of_(host_of_.size()),
      is_crowded_(host_of_.size()) {
  for (const ProcessorPool& pool : topology.pools) {
    for (std::size_t place = 0; place < pool.ranks.size(); ++place) {
      const auto rank = static_cast<std::size_t>(pool.ranks[place]);
      core_of_[rank] = cores_ + static_cast<int>(place) % pool.cores();
      is_crowded_[rank] = pool.is_crowded();
    }
    cores_ += pool.cores();
  }
}

LinkCharge PriceTable::of(const Timetable::Message& message) const {
  double all = 0, senders = 0, sums = 0, receivers = 0, relayed = 0;
  bool is_reference = false;
  for (const Timetable::Load& load : message.loads) {
    const double bytes = bytes_of(load.chunk);
    all += bytes;
    if (load.payer == Payer::sender) senders += bytes;
    if (load.payer == Payer::the_sum) sums += bytes;
    if (load.payer == Payer::receiver) receivers += bytes;
    if (load.payer == Payer::receiver && load.is_relayed) relayed += bytes;
    is_reference = is_reference || (load.payer != Payer::sender && load.payer != Payer::the_sum &&
                                    bytes >= transport::kShortestReference);
  }
  // An empty chunk is not sent (docs/algorithms/README.md): it takes neither time nor ports.
  if (all == 0) return {.is_empty = true};
  LinkCharge charge{.link = host(message.from) == host(message.to) ? topology_.within_a_host
                                                                   : LinkClass::network};
  const topology::Line& line = profile_.link(charge.link).line(all);
  switch (charge.link) {
    case LinkClass::network:
      charge.sender = charge.receiver = line(all);
      charge.uplink = all * line.beta;
      break;
    case LinkClass::loopback: charge.sender = charge.receiver = line(all) / 2; break;
    case LinkClass::memory:
      charge.sender = line.alpha / 2 + senders * line.beta + sums * profile_.store;
      charge.receiver = line.alpha / 2 + receivers * line.beta + relayed * profile_.relay;
      break;
  }
  if (is_crowded_[static_cast<std::size_t>(message.to)])
    charge.wake = is_reference && charge.link == LinkClass::memory ? profile_.crowded_reference
                                                                   : profile_.crowded;
  return charge;
}

double PriceTable::of(const Timetable::Work& work) const {
  double reduced = 0, copied = 0;
  for (const int chunk : work.reduced) reduced += bytes_of(chunk);
  for (const int chunk : work.copied) copied += bytes_of(chunk);
  return reduced * profile_.gamma + copied * profile_.copy;
}

double PriceTable::busiest(const Timetable& table) const {
  const std::size_t ranks = table.rounds.size(), hosts = topology_.hosts.size();
  std::vector<double> out(ranks), in(ranks), cores(static_cast<std::size_t>(cores_)), up(hosts),
      down(hosts);
  for (const Timetable::Message& message : table.messages) {
    const LinkCharge charge = of(message);
    const auto from = static_cast<std::size_t>(message.from),
               to = static_cast<std::size_t>(message.to);
    const bool crosses = charge.link == LinkClass::network;
    (crosses ? out[from] : cores[static_cast<std::size_t>(core(message.from))]) += charge.sender;
    (crosses ? in[to] : cores[static_cast<std::size_t>(core(message.to))]) += charge.receiver;
    up[static_cast<std::size_t>(host_of_[from])] += charge.uplink;
    down[static_cast<std::size_t>(host_of_[to])] += charge.uplink;
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const Timetable::Work& work : table.rounds[rank])
      cores[static_cast<std::size_t>(core_of_[rank])] += of(work);
  }
  double most = 0;
  for (const auto* seconds : {&out, &in, &cores, &up, &down}) {
    if (!seconds->empty()) most = std::max(most, *std::ranges::max_element(*seconds));
  }
  return most;
}

}  // namespace paceline::collective
