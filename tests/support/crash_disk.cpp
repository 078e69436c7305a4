#include "tests/support/crash_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace paceline::test {
namespace {

Failure no_such(const std::string& path) {
  return {Fault::io, "cannot find " + path, {}};
}

class Reading final : public Disk::Source {
 public:
  explicit Reading(std::string content) : content_(std::move(content)) {}
  std::uint64_t size() const override { return content_.size(); }
  Result<> read(std::uint64_t offset, MutableBytes into) override {
    if (offset > content_.size() || into.size() > content_.size() - offset)
      return Failure{Fault::io, "the file is too short", {}};
    if (!into.empty()) std::memcpy(into.data(), content_.data() + offset, into.size());
    return Done{};
  }

 private:
  const std::string content_;
};

}  // namespace

class CrashDisk::Writing final : public Disk::File {
 public:
  Writing(CrashDisk& disk, std::size_t node) : disk_(disk), node_(node) {}
  Result<> reserve(std::uint64_t) override { return Done{}; }
  Result<> append(Bytes bytes) override {
    Operation operation{.kind = Operation::Kind::append, .node = node_, .offset = written_};
    operation.bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    auto done = disk_.perform(std::move(operation));
    if (done) written_ += bytes.size();
    return done;
  }
  Result<> sync() override { return disk_.perform({.kind = Operation::Kind::sync, .node = node_}); }

 private:
  CrashDisk& disk_;
  const std::size_t node_;
  std::uint64_t written_ = 0;
};

CrashDisk::CrashDisk() : nodes_(1) {
  nodes_[0].is_directory = true;
}

CrashDisk CrashDisk::crashed(std::size_t count, const std::function<bool()>& survives) const {
  CrashDisk after;
  for (std::size_t i = 0; i < count; ++i) {
    // Nodes keep their numbers, also those that no entry leads to any more.
    if (log_[i].kind == Operation::Kind::make)
      after.nodes_.push_back({log_[i].is_directory, "", {}});
    if (is_durable(i, count) || survives()) after.apply(log_[i]);
  }
  return after;
}

bool CrashDisk::is_durable(std::size_t operation, std::size_t count) const {
  const Operation& one = log_[operation];
  const auto is_synced = [&](std::size_t node) {
    for (std::size_t i = operation + 1; i < count; ++i)
      if (log_[i].kind == Operation::Kind::sync && log_[i].node == node) return true;
    return false;
  };
  switch (one.kind) {
    case Operation::Kind::sync: return true;
    case Operation::Kind::append: return is_synced(one.node);
    case Operation::Kind::make:
    case Operation::Kind::remove: return is_synced(one.at.directory);
    case Operation::Kind::rename:
    case Operation::Kind::exchange:
      return is_synced(one.at.directory) && is_synced(one.to.directory);
  }
  return false;
}

void CrashDisk::fail_after(std::size_t count, Failure failure) {
  until_failure_ = count;
  failure_ = std::move(failure);
}

Result<> CrashDisk::perform(Operation operation) {
  if (failure_ && until_failure_ == 0) return *failure_;
  if (failure_) --until_failure_;
  if (operation.kind == Operation::Kind::sync && syncs_++ == lost_sync_) return Done{};
  if (operation.kind == Operation::Kind::make) nodes_.push_back({operation.is_directory, "", {}});
  apply(operation);
  log_.push_back(std::move(operation));
  return Done{};
}

// An operation whose entries were lost does nothing.
void CrashDisk::apply(const Operation& one) {
  const auto entries = [&](const Place& place) -> auto& {
    return nodes_[place.directory].entries;
  };
  switch (one.kind) {
    case Operation::Kind::make: entries(one.at)[one.at.name] = one.node; return;
    case Operation::Kind::append: {
      std::string& content = nodes_[one.node].content;
      content.resize(std::max(content.size(), one.offset + one.bytes.size()));
      content.replace(one.offset, one.bytes.size(), one.bytes);
      return;
    }
    case Operation::Kind::remove: entries(one.at).erase(one.at.name); return;
    case Operation::Kind::rename: {
      const auto found = entries(one.at).find(one.at.name);
      if (found == entries(one.at).end()) return;
      const std::size_t node = found->second;
      entries(one.at).erase(found);
      entries(one.to)[one.to.name] = node;
      return;
    }
    case Operation::Kind::exchange: {
      if (entry(one.at) != nullptr && entry(one.to) != nullptr)
        std::swap(entries(one.at)[one.at.name], entries(one.to)[one.to.name]);
      return;
    }
    case Operation::Kind::sync: return;
  }
}

const std::size_t* CrashDisk::entry(const Place& place) const {
  const auto& entries = nodes_[place.directory].entries;
  const auto found = entries.find(place.name);
  return found == entries.end() ? nullptr : &found->second;
}

Result<std::size_t> CrashDisk::find(const std::string& path) const {
  std::size_t node = 0;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::size_t* next = entry({node, path.substr(at, end - at)});
    if (next == nullptr) return no_such(path);
    node = *next;
    at = end + 1;
  }
  return node;
}

Result<CrashDisk::Place> CrashDisk::place_of(const std::string& path) const {
  const std::size_t slash = path.rfind('/');
  const auto directory = slash == std::string::npos ? Result<std::size_t>(std::size_t{0})
                                                    : find(path.substr(0, slash));
  if (!directory) return directory.error();
  return Place{directory.value(), path.substr(slash == std::string::npos ? 0 : slash + 1)};
}

Result<std::unique_ptr<Disk::File>> CrashDisk::create(const std::string& path) {
  const auto place = place_of(path);
  if (!place) return place.error();
  if (entry(place.value()) != nullptr) return Failure{Fault::io, path + " is there", {}};
  const std::size_t node = nodes_.size();
  auto made = perform({.kind = Operation::Kind::make, .node = node, .at = place.value()});
  if (!made) return made.error();
  return std::unique_ptr<File>(std::make_unique<Writing>(*this, node));
}

Result<std::unique_ptr<Disk::Source>> CrashDisk::open(const std::string& path) {
  const auto node = find(path);
  if (!node) return node.error();
  if (nodes_[node.value()].is_directory) return Failure{Fault::io, path + " is no file", {}};
  return std::unique_ptr<Source>(std::make_unique<Reading>(nodes_[node.value()].content));
}

Result<std::vector<Disk::Entry>> CrashDisk::list(const std::string& directory) {
  std::vector<Entry> entries;
  const auto node = find(directory);
  if (!node) return entries;
  for (const auto& [name, one] : nodes_[node.value()].entries)
    entries.push_back(
        {name, nodes_[one].is_directory ? Entry::Kind::directory : Entry::Kind::file});
  return entries;
}

Result<> CrashDisk::make_directory(const std::string& path) {
  const auto place = place_of(path);
  if (!place) return place.error();
  if (entry(place.value()) != nullptr) return Done{};
  return perform({.kind = Operation::Kind::make,
                  .node = nodes_.size(),
                  .at = place.value(),
                  .is_directory = true});
}

Result<> CrashDisk::rename(const std::string& from, const std::string& to) {
  const auto source = place_of(from), target = place_of(to);
  if (!source || !target || entry(source.value()) == nullptr) return no_such(from);
  if (entry(target.value()) != nullptr) return Failure{Fault::io, to + " is there", {}};
  return perform({.kind = Operation::Kind::rename, .at = source.value(), .to = target.value()});
}

Result<> CrashDisk::replace(const std::string& from, const std::string& to) {
  const auto source = place_of(from), target = place_of(to);
  if (!source || !target || entry(source.value()) == nullptr) return no_such(from);
  return perform({.kind = Operation::Kind::rename, .at = source.value(), .to = target.value()});
}

Result<> CrashDisk::exchange(const std::string& one, const std::string& other) {
  const auto first = place_of(one), second = place_of(other);
  if (!first || !second || entry(first.value()) == nullptr || entry(second.value()) == nullptr)
    return no_such(one + " or " + other);
  return perform({.kind = Operation::Kind::exchange, .at = first.value(), .to = second.value()});
}

Result<> CrashDisk::remove(const std::string& path) {
  const auto place = place_of(path);
  const std::size_t* node = place ? entry(place.value()) : nullptr;
  if (node == nullptr) return no_such(path);
  if (!nodes_[*node].entries.empty()) return Failure{Fault::io, path + " is not empty", {}};
  return perform({.kind = Operation::Kind::remove, .at = place.value()});
}

Result<> CrashDisk::sync_directory(const std::string& path) {
  const auto node = find(path);
  if (!node) return node.error();
  return perform({.kind = Operation::Kind::sync, .node = node.value()});
}

Result<std::uint64_t> CrashDisk::free_bytes(const std::string&) {
  return std::uint64_t{1} << 30;
}

std::map<std::string, std::string> CrashDisk::tree() const {
  std::map<std::string, std::string> found;
  const std::function<void(std::size_t, const std::string&)> walk = [&](std::size_t node,
                                                                        const std::string& path) {
    for (const auto& [name, one] : nodes_[node].entries) {
      found[path + name] = nodes_[one].content;
      walk(one, path + name + "/");
    }
  };
  walk(0, "");
  return found;
}

}  // namespace paceline::test
