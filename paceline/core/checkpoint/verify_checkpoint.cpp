#include "paceline/core/checkpoint/verify_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/sha256.h"
#include "paceline/core/checkpoint/checkpoint_directory.h"
#include "paceline/core/checkpoint/tensor_file.h"

namespace paceline::checkpoint {
namespace {

// Nobody's manifest is longer: that of a million tensors has some 300 MB.
constexpr std::uint64_t kLongestManifest = 1ULL << 30;
constexpr std::uint64_t kLongestSum = 4096;

Result<std::string> whole_text(Disk& disk, const std::string& path, std::uint64_t most) {
  auto file = disk.open(path);
  if (!file) return file.error();
  const std::uint64_t length = file.value()->size();
  if (length > most) return damaged(path, fmt::format("it has {} bytes", length));
  std::string text(length, '\0');
  auto read = file.value()->read(0, std::as_writable_bytes(std::span(text)));
  if (!read) return read.error();
  return text;
}

struct ExpectedTensor {
  Dtype dtype;
  Extents shape;
};
using Expected = std::map<std::string, ExpectedTensor>;  // the tensors of a file, by their keys

std::map<std::string, Expected> expected_of(const Manifest& manifest) {
  std::map<std::string, Expected> files;
  for (const Item& item : manifest.items) {
    for (const LogicalTensor& tensor : item.tensors) {
      for (const StoredPiece& piece : tensor.pieces)
        files[piece.file][piece.key] = {tensor.dtype, piece.box.shape};
    }
  }
  return files;
}

// Names a difference between a header and the manifest; empty: there is none.
std::string difference(const TensorFileHeader& header, const Expected& expected) {
  for (const StoredTensor& stored : header.tensors) {
    const auto tensor = expected.find(stored.name);
    if (tensor == expected.end())
      return fmt::format("it holds a tensor {} that the manifest does not name", stored.name);
    if (stored.dtype != tensor->second.dtype || stored.shape != tensor->second.shape)
      return fmt::format("its tensor {} is of another type or shape than in the manifest",
                         stored.name);
  }
  for (const auto& [key, tensor] : expected) {
    if (std::ranges::find(header.tensors, key, &StoredTensor::name) == header.tensors.end())
      return fmt::format("its tensor {} is missing", key);
  }
  return "";
}

// The names of the tensors in bytes [begin, end) of the file.
std::string tensors_in(const TensorFileHeader& header, std::uint64_t begin, std::uint64_t end) {
  std::string names;
  for (const StoredTensor& tensor : header.tensors) {
    const std::uint64_t first = header.data_begin + tensor.begin,
                        last = header.data_begin + tensor.end;
    if (first < end && begin < last) names += (names.empty() ? "" : ", ") + tensor.name;
  }
  return names;
}

class FileCheck {
 public:
  FileCheck(Disk& disk, const std::string& directory, const StoredFile& file,
            const Expected& expected, std::vector<Damage>& found)
      : disk_(disk),
        path_(directory + "/" + file.name),
        file_(file),
        expected_(expected),
        found_(found) {}

  void run() {
    const auto opened = disk_.open(path_);
    if (!opened) return tell(opened.error().what, all_tensors());
    Disk::Source& source = *opened.value();
    if (source.size() != file_.length)
      return tell(fmt::format("it has {} bytes instead of {}", source.size(), file_.length),
                  all_tensors());
    const auto header = read_header(source, path_);
    if (header) {
      const std::string differs = difference(header.value(), expected_);
      if (!differs.empty()) tell(differs, "");
    } else {
      tell(header.error().what, all_tensors());
    }
    check_blocks(source, header ? &header.value() : nullptr);
  }

 private:
  void check_blocks(Disk::Source& source, const TensorFileHeader* header) {
    std::vector<std::byte> block(std::min<std::uint64_t>(kChecksumBlock, file_.length));
    for (std::size_t i = 0; i < file_.checksums.size(); ++i) {
      const std::uint64_t begin = i * kChecksumBlock;
      const auto bytes =
          std::span(block).first(std::min<std::uint64_t>(kChecksumBlock, file_.length - begin));
      const std::string names =
          header == nullptr ? "" : tensors_in(*header, begin, begin + bytes.size());
      if (auto read = source.read(begin, bytes); !read) return tell(read.error().what, names);
      if (crc32c(bytes) != file_.checksums[i])
        tell(fmt::format("its MiB {} differs from its checksum", i), names);
    }
  }

  std::string all_tensors() const {
    std::string names;
    for (const auto& [key, tensor] : expected_) names += (names.empty() ? "" : ", ") + key;
    return names;
  }

  void tell(std::string what, std::string tensors) {
    found_.push_back({file_.name, std::move(tensors), std::move(what)});
  }

  Disk& disk_;
  const std::string path_;
  const StoredFile& file_;
  const Expected& expected_;
  std::vector<Damage>& found_;
};

// --- damaged, or not readable now ----------------------------------------------------------------

// Remembers the first failure of the system, as against bytes that are wrong.
class Refusals {
 public:
  void note(const Failure& failure) {
    if (!first_) first_ = failure;
  }
  const std::optional<Failure>& first() const { return first_; }

 private:
  std::optional<Failure> first_;
};

class WatchedSource final : public Disk::Source {
 public:
  WatchedSource(std::unique_ptr<Disk::Source> source, Refusals& refusals)
      : source_(std::move(source)), refusals_(refusals) {}

  std::uint64_t size() const override { return source_->size(); }
  // Callers stay within size(), so a file that ends sooner changes under their eyes.
  Result<> read(std::uint64_t offset, MutableBytes into) override {
    auto done = source_->read(offset, into);
    if (!done) refusals_.note(done.error());
    return done;
  }

 private:
  const std::unique_ptr<Disk::Source> source_;
  Refusals& refusals_;
};

// A disk that is only read.
class WatchedDisk final : public Disk {
 public:
  WatchedDisk(Disk& disk, Refusals& refusals) : disk_(disk), refusals_(refusals) {}

  Result<std::unique_ptr<Source>> open(const std::string& path) override {
    auto opened = disk_.open(path);
    if (opened) {
      return std::unique_ptr<Source>(
          std::make_unique<WatchedSource>(*std::move(opened), refusals_));
    }
    if (!is_missing(path)) refusals_.note(opened.error());
    return opened;
  }
  Result<std::vector<Entry>> list(const std::string& directory) override {
    return disk_.list(directory);
  }

  Result<std::unique_ptr<File>> create(const std::string& path) override { return refused(path); }
  Result<> make_directory(const std::string& path) override { return refused(path); }
  Result<> rename(const std::string& from, const std::string&) override { return refused(from); }
  Result<> replace(const std::string& from, const std::string&) override { return refused(from); }
  Result<> exchange(const std::string& one, const std::string&) override { return refused(one); }
  Result<> remove(const std::string& path) override { return refused(path); }
  Result<> sync_directory(const std::string& path) override { return refused(path); }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return refused(path); }

 private:
  static Failure refused(const std::string& path) {
    return {Fault::io, path + " is only read here", {}};
  }

  // Its folder is readable, and does not name it.
  bool is_missing(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const auto entries = disk_.list(path.substr(0, slash));
    if (!entries) return false;
    return std::ranges::find(entries.value(), path.substr(slash + 1), &Entry::name) ==
           entries.value().end();
  }

  Disk& disk_;
  Refusals& refusals_;
};

std::string first_of(const std::vector<Damage>& found, const std::string& directory) {
  if (found.empty()) return "";
  const Damage& first = found.front();
  return fmt::format("{}/{} is damaged: {}{}", directory, first.file, first.what,
                     first.tensors.empty() ? "" : fmt::format(" (of {})", first.tensors));
}

}  // namespace

Result<Manifest> read_manifest(Disk& disk, const std::string& directory) {
  const std::string path = fmt::format("{}/{}", directory, kManifestName);
  const auto text = whole_text(disk, path, kLongestManifest);
  if (!text) return text.error();
  const auto sum = whole_text(disk, fmt::format("{}/{}", directory, kManifestSumName), kLongestSum);
  if (!sum) return sum.error();
  const std::string expected =
      fmt::format("{}  {}\n", sha256_hex(std::as_bytes(std::span(text.value()))), kManifestName);
  if (sum.value() != expected) return damaged(path, "its SHA-256 is not that in manifest.sha256");
  auto manifest = parse_manifest(path, text.value());
  if (!manifest) return manifest;
  const std::string name = directory.substr(directory.rfind('/') + 1);
  if (step_of_name(name) && step_of_name(name) != manifest.value().step)
    return damaged(path, fmt::format("it is of step {}", manifest.value().step));
  return manifest;
}

Result<TensorFileHeader> read_header(Disk::Source& file, const std::string& path) {
  std::array<std::byte, kHeaderLengthBytes> first{};
  if (file.size() < first.size()) return damaged(path, "it is too short for a file of tensors");
  if (auto read = file.read(0, first); !read) return read.error();
  const auto length = header_length(path, first, file.size());
  if (!length) return length.error();
  std::string json(length.value(), '\0');
  if (auto read = file.read(first.size(), std::as_writable_bytes(std::span(json))); !read)
    return read.error();
  return parse_header(path, json, file.size());
}

std::vector<Damage> damages(Disk& disk, const std::string& directory, const Manifest& manifest) {
  const auto expected = expected_of(manifest);
  const Expected nothing;
  std::vector<Damage> found;
  for (const StoredFile& file : manifest.files) {
    const auto names = expected.find(file.name);
    FileCheck(disk, directory, file, names == expected.end() ? nothing : names->second, found)
        .run();
  }
  return found;
}

Result<std::string> damage_of(Disk& disk, const std::string& directory) {
  Refusals refusals;
  WatchedDisk watched(disk, refusals);
  const auto manifest = read_manifest(watched, directory);
  if (refusals.first()) return *refusals.first();
  if (!manifest)
    return manifest.error().fault == Fault::misuse ? Result<std::string>(manifest.error())
                                                   : Result<std::string>(manifest.error().what);
  const std::vector<Damage> found = damages(watched, directory, manifest.value());
  if (refusals.first()) return *refusals.first();
  return first_of(found, directory);
}

}  // namespace paceline::checkpoint
