// The shares of a sparse table that apply the work of workers, without messages.
#pragma once

#include <memory>
#include <vector>

#include "tests/core/server/sparse/sparse_world.h"

namespace paceline::test {

// Applies the work under bsp to the shares of so many servers, and returns the rows of all ids. At
// half of the steps the rows may move to shares of another number of servers.
template <typename T>
class AppliedWork {
 public:
  AppliedWork(const SparseWork& work, const server::SparseTableSpec& spec, int servers)
      : work_(work), spec_(spec) {
    open(servers);
  }

  void step(std::int64_t step) {
    std::vector<std::vector<server::SparsePush>> pushes(shape_->servers());
    for (int worker = 0; worker < work_.workers; ++worker) {
      const server::SharedPlan plan = server::plan_of(work_.ids(worker, step), *shape_);
      const std::vector<T> gradient = work_.gradient(worker, step, read(*plan));
      auto rows = server::summed_rows(*plan, std::as_bytes(std::span(gradient)), *shape_);
      for (std::size_t share = 0; share < rows.size(); ++share)
        pushes[share].push_back({.worker = worker,
                                 .stamp = step,
                                 .weight = work_.weight(worker),
                                 .rate = shape_->settings.front(),
                                 .rows = {plan->shares[share].ids, std::move(rows[share])}});
    }
    for (std::size_t share = 0; share < shares_.size(); ++share)
      shares_[share].apply(shares_[share].step_of(std::move(pushes[share])));
  }

  void move_to(int servers) {
    const auto old_shape = std::move(shape_);
    const auto old = std::move(shares_);
    open(servers);
    for (const server::ShareValue& share : old) {
      for (server::ShareValue& told : shares_)
        told.apply({.kind = server::ShareChange::Kind::store, .rule_steps = share.rule_steps()});
      for (const server::RowStore& arc : share.arcs())
        for (std::size_t row = 0; row < arc.rows(); ++row) {
          server::ShareChange change{.kind = server::ShareChange::Kind::store,
                                     .rule_steps = share.rule_steps()};
          const std::byte* const at = arc.at(row);
          change.pushes.push_back(
              {.rows = {std::make_shared<const server::IdList>(server::IdList{arc.id_of(row)}),
                        {at, at + arc.row_bytes()}}});
          shares_[shape_->share_of(server::hash_of_id(arc.id_of(row)))].apply(std::move(change));
        }
    }
  }

  std::vector<T> read(const server::IdPlan& plan) const {
    std::vector<std::vector<T>> lists;
    for (std::size_t share = 0; share < shares_.size(); ++share) {
      lists.emplace_back(plan.shares[share].ids->size() * work_.width);
      shares_[share].read(*plan.shares[share].ids,
                          reinterpret_cast<std::byte*>(lists.back().data()));
    }
    std::vector<T> rows;
    for (const auto& [share, number] : plan.places)
      for (std::size_t at = 0; at < work_.width; ++at)
        rows.push_back(lists[share][number * work_.width + at]);
    return rows;
  }
  std::vector<T> all() const { return read(*server::plan_of(SparseWork::all_ids(), *shape_)); }
  const server::SparseShape& shape() const { return *shape_; }
  const std::vector<server::ShareValue>& shares() const { return shares_; }
  std::size_t stored() const {
    std::size_t all = 0;
    for (const server::ShareValue& share : shares_) all += share.rows();
    return all;
  }
  // Each share goes on as one that was read from its bytes. Returns whether they can be read.
  bool reread() {
    for (std::size_t share = 0; share < shares_.size(); ++share) {
      transport::WireWriter writer;
      shares_[share].write(writer);
      transport::WireReader reader(writer.bytes());
      server::ShareValue copy(*shape_);
      if (!copy.read(reader, share) || !reader.ok_and_empty()) return false;
      shares_[share] = std::move(copy);
    }
    return true;
  }

 private:
  void open(int servers) {
    shape_ = std::make_unique<server::SparseShape>(
        server::shape_of(spec_, server::TableMembers::of_servers(work_.workers, servers)).value());
    shares_.clear();
    for (int i = 0; i < servers; ++i) shares_.emplace_back(*shape_);
  }

  const SparseWork work_;
  const server::SparseTableSpec spec_;
  std::unique_ptr<server::SparseShape> shape_;
  std::vector<server::ShareValue> shares_;
};

}  // namespace paceline::test
