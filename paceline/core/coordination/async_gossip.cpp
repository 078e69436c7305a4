#include "paceline/core/coordination/async_gossip.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/core/base/check.h"

namespace paceline::coordination {

using machine::Actions;
using machine::Message;
using machine::Send;
using machine::Time;

namespace {

template <typename T>
std::vector<std::byte> payload_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// Element i of a payload, which may lie anywhere.
template <typename T>
T element(const Message& message, std::size_t i) {
  T value;
  std::memcpy(&value, message.payload.data() + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

template <typename T>
AsyncGossip<T>::AsyncGossip(GossipPlace place, std::span<const T> start, std::uint64_t seed)
    : is_active_(place.is_active),
      neighbours_(std::move(place.neighbours)),
      x_(start.begin(), start.end()),
      numbers_(seed) {}

template <typename T>
void AsyncGossip<T>::check_length(std::size_t count) const {
  PACELINE_CHECK(count == x_.size(), "{} elements for a gossiping vector of {}", count, x_.size());
}

template <typename T>
void AsyncGossip<T>::add(std::span<const T> delta) {
  const std::lock_guard lock(mutex_);
  check_length(delta.size());
  for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += delta[i];
}

template <typename T>
void AsyncGossip<T>::read(std::span<T> into) const {
  const std::lock_guard lock(mutex_);
  check_length(into.size());
  std::ranges::copy(x_, into.begin());
}

template <typename T>
void AsyncGossip<T>::add_and_read(std::span<const T> delta, std::span<T> into) {
  const std::lock_guard lock(mutex_);
  check_length(delta.size());
  check_length(into.size());
  for (std::size_t i = 0; i < x_.size(); ++i) into[i] = x_[i] += delta[i];
}

template <typename T>
Message AsyncGossip<T>::ask() {
  const std::lock_guard lock(mutex_);
  ++asked_;
  return {.kind = kAsk};
}

template <typename T>
bool AsyncGossip<T>::is_quiet() const {
  const std::lock_guard lock(mutex_);
  return asked_ == 0 && !partner_;
}

template <typename T>
std::uint64_t AsyncGossip<T>::exchanges() const {
  const std::lock_guard lock(mutex_);
  return exchanges_;
}

template <typename T>
std::uint64_t AsyncGossip<T>::sent_bytes() const {
  const std::lock_guard lock(mutex_);
  return sent_bytes_;
}

template <typename T>
std::optional<int> AsyncGossip<T>::unanswered() const {
  const std::lock_guard lock(mutex_);
  return unanswered_;
}

template <typename T>
std::optional<int> AsyncGossip<T>::partner() const {
  const std::lock_guard lock(mutex_);
  return partner_;
}

template <typename T>
Actions AsyncGossip<T>::on_message(int from, const Message& message, Time) {
  const std::lock_guard lock(mutex_);
  if (message.kind == kAsk && asked_ > 0) return begin();
  if (message.payload.size() != x_.size() * sizeof(T)) return refuse(from, message);
  if (message.kind == kOffer && !is_active_) return answer(from, message);
  if (message.kind == kMean && partner_ == from && message.index == begun_)
    return take(from, message);
  return refuse(from, message);
}

template <typename T>
Actions AsyncGossip<T>::begin() {
  --asked_;
  if (!is_active_ || partner_ || neighbours_.empty()) return {};
  partner_ = neighbours_[numbers_.below(neighbours_.size())];
  sent_ = x_;
  sent_bytes_ += x_.size() * sizeof(T);
  return {Send{*partner_, {.kind = kOffer, .index = ++begun_, .payload = payload_of(sent_)}}};
}

template <typename T>
Actions AsyncGossip<T>::answer(int from, const Message& offer) {
  for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = (x_[i] + element<T>(offer, i)) / 2;
  sent_bytes_ += x_.size() * sizeof(T);
  return {Send{from, {.kind = kMean, .index = offer.index, .payload = payload_of(x_)}}};
}

template <typename T>
Actions AsyncGossip<T>::take(int, const Message& mean) {
  for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += element<T>(mean, i) - sent_[i];
  partner_.reset();
  ++exchanges_;
  return {};
}

template <typename T>
Actions AsyncGossip<T>::refuse(int peer, const Message& message) {
  forget(peer);
  return {machine::Drop{
      peer,
      {Fault::mismatch,
       fmt::format(
           "rank {} sent {} bytes (kind {}, exchange {}) to a gossiping vector of {} bytes; "
           "all ranks must gossip vectors of one length along one graph",
           peer, message.payload.size(), message.kind, message.index, x_.size() * sizeof(T)),
       {peer}}}};
}

template <typename T>
Actions AsyncGossip<T>::on_lost(int peer, Time) {
  const std::lock_guard lock(mutex_);
  forget(peer);
  return {};
}

template <typename T>
void AsyncGossip<T>::forget(int peer) {
  std::erase(neighbours_, peer);
  if (partner_ != peer) return;
  unanswered_ = peer;
  partner_.reset();
}

template class AsyncGossip<float>;
template class AsyncGossip<double>;

}  // namespace paceline::coordination
