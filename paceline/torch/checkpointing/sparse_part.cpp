// A sparse table on servers as an item: each rank saves the rows of some arcs, and any number of
// ranks puts them back on any number of servers.
#include <torch/torch.h>

#include <cstring>
#include <utility>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/checkpointing/checkpoint_part.h"

namespace paceline::checkpointing {
namespace {

using Json = JsonReader::Json;

constexpr const char *kIds = "ids", *kRows = "rows", *kState = "state", *kSteps = "rule_steps";

at::Tensor tensor_of(Bytes bytes, std::vector<std::int64_t> shape, at::ScalarType type) {
  at::Tensor tensor = at::empty(shape, type);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

class SparsePart final : public CheckpointPart {
 public:
  explicit SparsePart(server::SparseTable& table) : table_(table) {}

  void require_savable(const std::string& item) override {
    if (!table_.is_worker())
      throw_misuse(c10::str("item '", item,
                            "' of checkpoints: this rank only serves sparse table '",
                            table_.spec().name, "', and all that save are its workers"));
  }

  // All workers rest before, and none pushes before all have fetched their rows.
  ItemState state() override {
    table_.quiesce().wait();
    const server::StoredRows rows = table_.stored(table_.worker(), table_.workers());
    table_.quiesce().wait();
    const auto count = static_cast<std::int64_t>(rows.ids.size());
    ItemState state{.values = described()};
    state.values[kSteps] = rows.rule_steps;
    if (count == 0) return state;
    const auto add = [&](const char* name, Bytes bytes, std::vector<std::int64_t> shape,
                         at::ScalarType type) {
      state.tensors.push_back({name, tensor_of(bytes, std::move(shape), type), Held::by_each});
    };
    add(kIds, std::as_bytes(std::span(rows.ids)), {count}, at::kLong);
    add(kRows, rows.values, {count, width()}, type());
    if (state_width() > 0) add(kState, rows.state, {count, state_width()}, type());
    return state;
  }

  void check(const SavedItem& saved) override {
    const Json own = described();
    for (const auto& [key, here] : own.items()) {
      const auto found = saved.values().find(key);
      if (found == saved.values().end() || *found != here)
        refuse_item(saved, c10::str("its sparse table has ", key, " = ",
                                    found == saved.values().end() ? "nothing" : found->dump(),
                                    ", and that of this program ", key, " = ", here.dump()));
    }
    if (!saved.values().contains(kSteps) || !saved.values().at(kSteps).is_number_unsigned())
      refuse_item(saved, "it does not tell how many steps its rule has made");
    saved.require_no_other({kIds, kRows, kState});
    for (int rank = 0; rank < saved.ranks(); ++rank) check_rows(saved, rank);
  }

  // Each rank brings the rows of some of those that saved.
  void load(const SavedItem& saved) override {
    const auto steps = saved.values().at(kSteps).get<std::int64_t>();
    if (table_.worker() == 0) table_.store({.rule_steps = steps});
    for (int rank = table_.worker(); rank < saved.ranks(); rank += table_.workers()) {
      const checkpoint::LogicalTensor* const ids = saved.find_of(kIds, rank);
      if (ids == nullptr) continue;
      server::StoredRows rows{.ids = std::vector<std::int64_t>(ids->shape.front()),
                              .rule_steps = steps};
      const auto bytes = saved.read_bytes(*ids);
      std::memcpy(rows.ids.data(), bytes.data(), bytes.size());
      rows.values = saved.read_bytes(*saved.find_of(kRows, rank));
      if (state_width() > 0) rows.state = saved.read_bytes(*saved.find_of(kState, rank));
      table_.store(rows);
    }
    table_.quiesce().wait();
  }

 private:
  std::int64_t width() const { return static_cast<std::int64_t>(table_.spec().width); }
  std::int64_t state_width() const { return static_cast<std::int64_t>(table_.state_elements()); }
  at::ScalarType type() const { return scalar_type_of(table_.spec().dtype); }

  // All that decides on rows: those that are not stored follow from name, seed and spread.
  Json described() const {
    const server::SparseTableSpec& spec = table_.spec();
    return {{"table", spec.name},
            {"width", spec.width},
            {"dtype", std::string(name_of(spec.dtype))},
            {"rule", spec.rule.substr(0, spec.rule.find(':'))},
            {"state", table_.state_elements()},
            {"seed", spec.seed},
            {"spread", spec.spread}};
  }

  // REQUIRES: the values have been checked.
  void check_rows(const SavedItem& saved, int rank) const {
    const checkpoint::LogicalTensor* const ids = saved.find_of(kIds, rank);
    if (ids == nullptr) return;
    const auto is = [&](const char* name, Dtype dtype, const checkpoint::Extents& shape) {
      const checkpoint::LogicalTensor* const found = saved.find_of(name, rank);
      return found != nullptr && found->dtype == dtype && found->shape == shape;
    };
    const std::uint64_t count = ids->shape.empty() ? 0 : ids->shape.front();
    const bool is_whole =
        is(kIds, Dtype::i64, {count}) &&
        is(kRows, table_.spec().dtype, {count, static_cast<std::uint64_t>(width())}) &&
        (state_width() == 0 ||
         is(kState, table_.spec().dtype, {count, static_cast<std::uint64_t>(state_width())}));
    if (!is_whole) refuse_item(saved, c10::str("it has no rows of rank ", rank, " for its ids"));
  }

  server::SparseTable& table_;
};

}  // namespace

PartPtr sparse_part(server::SparseTable& table) {
  return std::make_unique<SparsePart>(table);
}

}  // namespace paceline::checkpointing
