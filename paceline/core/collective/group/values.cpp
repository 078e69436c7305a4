#include "paceline/core/collective/group/values.h"

#include <cstdint>
#include <span>

#include "paceline/core/base/check.h"

namespace paceline {
namespace {

ConstBuffer bytes_in(std::string_view text) {
  return {std::as_bytes(std::span(text)).data(), text.size(), Dtype::u8};
}

Buffer bytes_in(std::string& text) {
  return {std::as_writable_bytes(std::span(text)).data(), text.size(), Dtype::u8};
}

// Lengths come from other ranks: nothing is allocated before their sum is known to be in bounds.
void require_bounded(std::uint64_t length, std::uint64_t left, int rank, std::size_t at_most,
                     std::string_view call) {
  PACELINE_CHECK(length <= left,
                 "{}: with the {} bytes of rank {} the call brings more than "
                 "BytesOptions::at_most allows, {} bytes in all; bring less, or raise it on every "
                 "rank",
                 call, length, rank, at_most);
}

std::vector<std::size_t> lengths_of_all(Communicator& group, std::string_view own,
                                        const BytesOptions& options, std::string_view call) {
  group.check_may_wait(call);
  const std::uint64_t length[] = {own.size()};
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(group.size()));
  group
      .all_gather({std::as_bytes(std::span(length)).data(), 1, Dtype::i64},
                  {std::as_writable_bytes(std::span(lengths)).data(), lengths.size(), Dtype::i64},
                  {.within = options.within})
      .wait();
  std::uint64_t left = options.at_most;
  for (int rank = 0; rank < group.size(); ++rank) {
    const std::uint64_t one = lengths[static_cast<std::size_t>(rank)];
    require_bounded(one, left, rank, options.at_most, call);
    left -= one;
  }
  return {lengths.begin(), lengths.end()};
}

std::size_t sum_of(std::span<const std::size_t> lengths) {
  std::size_t sum = 0;
  for (const std::size_t length : lengths) sum += length;
  return sum;
}

std::vector<std::string> cut(std::string_view together, std::span<const std::size_t> lengths) {
  std::vector<std::string> parts;
  for (const std::size_t length : lengths) {
    parts.emplace_back(together.substr(0, length));
    together.remove_prefix(length);
  }
  return parts;
}

}  // namespace

std::vector<std::string> all_gather_bytes(Communicator& group, std::string_view own,
                                          const BytesOptions& options) {
  const auto lengths = lengths_of_all(group, own, options, "all_gather_bytes");
  std::string together(sum_of(lengths), '\0');
  if (!together.empty())
    group
        .all_gather(bytes_in(own), bytes_in(together),
                    {.counts = lengths, .within = options.within})
        .wait();
  return cut(together, lengths);
}

std::vector<std::string> gather_bytes(Communicator& group, std::string_view own, int root,
                                      const BytesOptions& options) {
  PACELINE_CHECK(root >= 0 && root < group.size(), "gather_bytes: root {} is not in 0..{}", root,
                 group.size() - 1);
  const auto lengths = lengths_of_all(group, own, options, "gather_bytes");
  const bool is_root = group.rank() == root;
  std::string together(is_root ? sum_of(lengths) : 0, '\0');
  if (sum_of(lengths) > 0)
    group
        .gather(bytes_in(own), bytes_in(together), root,
                {.counts = lengths, .within = options.within})
        .wait();
  return is_root ? cut(together, lengths) : std::vector<std::string>();
}

std::string broadcast_bytes(Communicator& group, std::string_view own, int root,
                            const BytesOptions& options) {
  group.check_may_wait("broadcast_bytes");
  const bool is_root = group.rank() == root;
  std::uint64_t length[] = {is_root ? own.size() : 0};
  group
      .broadcast({std::as_writable_bytes(std::span(length)).data(), 1, Dtype::i64}, root,
                 {.within = options.within})
      .wait();
  require_bounded(length[0], options.at_most, root, options.at_most, "broadcast_bytes");
  std::string bytes = is_root ? std::string(own) : std::string(length[0], '\0');
  if (!bytes.empty()) group.broadcast(bytes_in(bytes), root, {.within = options.within}).wait();
  return bytes;
}

}  // namespace paceline
