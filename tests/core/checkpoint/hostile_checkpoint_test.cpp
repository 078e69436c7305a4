// Checkpoints that somebody has made to do harm: whatever is written in them, a reader refuses or
// reads it, throws nothing, and allocates no more than the files' bytes and 64 MiB.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/base/sha256.h"
#include "tests/core/checkpoint/small_checkpoints.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/watched_allocations.h"

namespace paceline::checkpoint::testing {
namespace {

using ::testing::HasSubstr;
using Json = JsonReader::Json;

constexpr std::size_t kMost = 64 << 20;  // above the bytes of the files

// Calls a reader of `bytes` bytes of files. Returns what went wrong; "": nothing.
std::string harm_of(std::size_t bytes, const std::function<void()>& call) {
  test::WatchedAllocations& allocations = test::watched_allocations;
  allocations = {.is_watched = true, .most = bytes + kMost};
  std::string harm;
  try {
    call();
  } catch (const std::exception& error) {
    allocations.is_watched = false;
    harm = fmt::format("threw {}", error.what());
  }
  allocations.is_watched = false;
  if (allocations.largest > bytes + kMost)
    harm += fmt::format("; it asked for {} bytes", allocations.largest);
  return harm;
}

// --- mutations ----------------------------------------------------------------------------------

const std::vector<std::string>& hostile_texts() {
  static const std::vector<std::string> texts = {"",
                                                 "../model-00001-of-00002.safetensors",
                                                 "..",
                                                 "/etc/passwd",
                                                 "a/b",
                                                 ".hidden",
                                                 std::string("a\0b", 3),
                                                 "manifest.json",
                                                 "model-00001-of-00002.safetensors",
                                                 "fc.weight",
                                                 "random@0",
                                                 "BF16",
                                                 "U8",
                                                 "F8_E4M3",
                                                 "__metadata__",
                                                 std::string(5000, 'x')};
  return texts;
}

Json hostile_value(SeededNumbers& numbers) {
  const std::vector<Json> values = {0,
                                    1,
                                    3,
                                    1ULL << 31,
                                    1ULL << 32,
                                    1ULL << 53,
                                    1ULL << 62,
                                    (1ULL << 63) - 1,
                                    1ULL << 63,
                                    ~0ULL,
                                    -1,
                                    0.5,
                                    1e308,
                                    nullptr,
                                    true,
                                    Json::object(),
                                    Json::array(),
                                    {0},
                                    {24, 2},
                                    {48, 2},
                                    {1ULL << 32, 1ULL << 32},
                                    {1ULL << 63},
                                    {0, 1ULL << 63},
                                    {1ULL << 20, 1ULL << 20, 1ULL << 20, 8},
                                    {~0ULL, ~0ULL, 2},
                                    {-1, 2},
                                    std::vector<int>(65, 1)};
  if (numbers.below(3) == 0) return hostile_texts()[numbers.below(hostile_texts().size())];
  return values[numbers.below(values.size())];
}

void collect(Json& json, std::vector<Json*>& nodes) {
  nodes.push_back(&json);
  if (json.is_structured())
    for (Json& child : json) collect(child, nodes);
}

// Changes one value of a document, wherever it stands.
void change_tree(Json& json, SeededNumbers& numbers) {
  std::vector<Json*> nodes;
  collect(json, nodes);
  Json& node = *nodes[numbers.below(nodes.size())];
  const auto child = [&] {
    return std::next(node.begin(), static_cast<std::ptrdiff_t>(numbers.below(node.size())));
  };
  switch (numbers.below(5)) {
    case 0:
      if (node.is_structured() && !node.empty()) {
        node.erase(child());
        return;
      }
      break;
    case 1:
      if (node.is_array() && !node.empty()) {
        const Json again = *child();
        node.push_back(again);
        return;
      }
      if (node.is_object()) {
        node["more"] = hostile_value(numbers);
        return;
      }
      break;
    case 2: {
      const Json other = *nodes[numbers.below(nodes.size())];
      node = other;
      return;
    }
    case 3:
      if (node.is_number_unsigned()) {
        node = node.get<std::uint64_t>() * (1 + numbers.below(4)) + numbers.below(3) - 1;
        return;
      }
      break;
    default: break;
  }
  node = hostile_value(numbers);
}

std::string repeated(const std::string& text, std::uint64_t times) {
  std::string all;
  for (; times > 0; --times) all += text;
  return all;
}

// Changes the bytes of a text, wherever they stand.
void change_bytes(std::string& text, SeededNumbers& numbers) {
  const std::size_t at = numbers.below(text.size() + 1), length = 1 + numbers.below(8);
  const std::uint64_t times = 1ULL << numbers.below(15);
  const std::vector<std::string> parts = {repeated("[", times),
                                          repeated("{\"a\":", times),
                                          repeated("9", times),
                                          repeated("0,", times),
                                          repeated("\\u0000", times % 99),
                                          "\xff\xfe",
                                          "\"",
                                          "\\",
                                          "../",
                                          "-",
                                          "e999",
                                          std::string(1, '\0')};
  switch (numbers.below(4)) {
    case 0: text.insert(at, parts[numbers.below(parts.size())]); return;
    case 1: text.erase(std::min(at, text.size()), length); return;
    case 2: text.insert(at, text.substr(std::min(at, text.size()), length * length)); return;
    default:
      for (std::size_t i = 0; i < length % 4 && at + i < text.size(); ++i)
        text[at + i] = static_cast<char>(numbers.below(256));
  }
}

// --- a checkpoint that is changed and read ------------------------------------------------------

class HostileCheckpoint : public ::testing::Test {
 protected:
  HostileCheckpoint() {
    for (const std::uint64_t step : {400, 500})
      SmallCheckpoint(step).save(disk_, folder_.path()).value();
    other_ = CheckpointDirectory(disk_, folder_.path()).path_of(500);
    other_manifest_ = read_manifest(disk_, other_).value();
    step_ = CheckpointDirectory(disk_, folder_.path()).path_of(400);
    for (const auto& entry : std::filesystem::directory_iterator(step_)) {
      std::ifstream file(entry.path(), std::ios::binary);
      sound_[entry.path().filename()] = {std::istreambuf_iterator<char>(file), {}};
    }
    written_ = sound_;
  }

  static bool is_of_tensors(const std::string& name) { return name.starts_with("model-"); }

  // The header of a file of tensors is replaced, and its data stay.
  static void change_header(std::string& file, SeededNumbers& numbers) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    std::string header = file.substr(sizeof length, length);
    const std::string data = file.substr(sizeof length + length);
    if (numbers.below(4) == 0) {
      change_bytes(header, numbers);
    } else {
      Json json = Json::parse(header);
      change_tree(json, numbers);
      header = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    length = header.size();
    if (numbers.below(8) == 0) length = 1ULL << numbers.below(64);
    file = std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
  }

  void change_manifest(std::string& text, SeededNumbers& numbers) {
    Json json = Json::parse(text);
    for (std::uint64_t changes = 1 + numbers.below(2); changes > 0; --changes)
      change_tree(json, numbers);
    text = json.dump(1, ' ', false, Json::error_handler_t::replace);
  }

  // One of the files becomes a link, a pipe, a directory, or nothing.
  void change_kind(const std::string& name, SeededNumbers& numbers) {
    const std::string path = step_ + "/" + name, content = std::exchange(written_[name], {});
    std::filesystem::remove(path);
    switch (numbers.below(5)) {
      case 0: std::filesystem::create_symlink("/etc/passwd", path); return;
      case 1:
        std::ofstream(folder_.file("aside"), std::ios::binary) << content;
        std::filesystem::create_symlink("../aside", path);
        return;
      case 2: ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); return;
      case 3: std::filesystem::create_directory(path); return;
      default: return;
    }
  }

  // The manifest tells of the files as they are now, as far as it still can.
  static void mend(std::string& manifest, const std::map<std::string, std::string>& files) {
    Json json = Json::parse(manifest, nullptr, false);
    if (!json.is_object() || !json.contains("files") || !json["files"].is_array()) return;
    for (Json& file : json["files"]) {
      if (!file.is_object() || !file.contains("name") || !file["name"].is_string()) continue;
      const auto found = files.find(file["name"].get<std::string>());
      if (found == files.end() || !is_of_tensors(found->first)) continue;
      BlockChecksums sums;
      sums.add(std::as_bytes(std::span(found->second)));
      file["length"] = found->second.size();
      file["crc32c"] = "";
      for (const std::uint32_t sum : sums.blocks())
        file["crc32c"] = file["crc32c"].get<std::string>() + fmt::format("{:08x}", sum);
    }
    manifest = json.dump(1, ' ', false, Json::error_handler_t::replace);
  }

  // Leaves those alone that are so already.
  void write(const std::map<std::string, std::string>& files) {
    for (const auto& [name, content] : files) {
      if (written_[name] == content) continue;
      std::filesystem::remove_all(step_ + "/" + name);
      std::ofstream(step_ + "/" + name, std::ios::binary) << content;
    }
    written_ = files;
  }

  static std::string sum_of(const std::string& manifest) {
    return sha256_hex(std::as_bytes(std::span(manifest))) + "  manifest.json\n";
  }

  // Everything that the command and a training do with a checkpoint. `bytes`: of its files.
  // True: it was taken for a sound one.
  bool use(std::size_t bytes, const std::string& what) {
    bool is_sound = false;
    const std::string harm = harm_of(bytes, [&] {
      const auto manifest = read_manifest(disk_, step_);
      if (!manifest) return;
      is_sound = damages(disk_, step_, manifest.value()).empty();
      // `paceline checkpoint diff` compares no checksums first.
      CheckpointReader reader(disk_, step_);
      for (const Item& item : manifest.value().items)
        for (const LogicalTensor& tensor : item.tensors)
          is_sound = reader.read(tensor).has_value() && is_sound;
      (void)differences(disk_, step_, manifest.value(), other_, other_manifest_);
      if (parse_manifest("m", to_json(manifest.value())).value() != manifest.value())
        throw std::logic_error("it was written otherwise than it was read");
    });
    EXPECT_EQ(harm, "") << what;
    // A small checkpoint needs little, all together.
    EXPECT_LT(test::watched_allocations.peak, static_cast<std::int64_t>(kMost / 4)) << what;
    return is_sound;
  }

  test::TemporaryFolder folder_;
  SystemDisk disk_;
  std::string step_, other_;
  Manifest other_manifest_;
  std::map<std::string, std::string> sound_;  // the bytes of the files of step_, by name
  // The content is that of now; empty where there is no such file.
  std::map<std::string, std::string> written_;
};

TEST_F(HostileCheckpoint, OfAnyKindIsRefusedOrReadWithinTheBytesThatItHas) {
  const std::vector<std::string> names = {"manifest.json", "model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors"};
  int taken = 0, refused = 0;
  for (int round = 0; round < (test::is_nightly() ? 20'000 : 1000); ++round) {
    SeededNumbers numbers(test::seed(100 + static_cast<std::uint64_t>(round)));
    auto files = sound_;
    const std::string& name = names[numbers.below(names.size())];
    const std::uint64_t kind = numbers.below(10);
    if (kind == 0) change_bytes(files[name], numbers);
    else if (kind < 6) change_manifest(files["manifest.json"], numbers);
    else if (kind < 9) change_header(files[names[1 + numbers.below(2)]], numbers);
    // A careful enemy makes lengths and sums fit.
    if (numbers.below(4) != 0) mend(files["manifest.json"], files);
    if (numbers.below(16) != 0) files["manifest.sha256"] = sum_of(files["manifest.json"]);
    write(files);
    if (kind == 9) change_kind(name, numbers);
    std::size_t bytes = 0;
    for (const auto& [ignored, content] : files) bytes += content.size();
    const bool is_taken = use(bytes, fmt::format("round {}, kind {}", round, kind));
    ASSERT_FALSE(HasFailure()) << files["manifest.json"];
    ASSERT_FALSE(is_taken && kind == 9) << "round " << round << ": it is no ordinary file";
    (is_taken ? taken : refused)++;
  }
  EXPECT_GT(taken, 0) << "what is still sound is read";
  EXPECT_GT(refused, taken);
}

// A tensor whose pieces are all the same bytes would be as large as its manifest likes.
TEST_F(HostileCheckpoint, NoBytesOfAFileAreReadTwice) {
  auto files = sound_;
  Json json = Json::parse(files["manifest.json"]);
  Json& tensor = json["items"][0]["tensors"][0];
  ASSERT_EQ(tensor["name"], "fc.weight");
  tensor["shape"] = {48, 2};
  tensor["pieces"].push_back(tensor["pieces"][0]);
  tensor["pieces"][1]["offset"] = {24, 0};
  const auto read = parse_manifest("manifest m", json.dump());
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().what, HasSubstr("items[0].tensors[0].pieces[1].key"));
}

TEST_F(HostileCheckpoint, ATensorIsNotMadeRoomForBeforeItsFilesAreSeenToHoldIt) {
  auto files = sound_;
  Json json = Json::parse(files["manifest.json"]);
  Json& tensor = json["items"][0]["tensors"][0];
  const std::uint64_t rows = 1ULL << 40;
  tensor["shape"] = {rows, 2};
  tensor["pieces"][0]["shape"] = {rows, 2};
  const auto unbelievable = parse_manifest("manifest m", json.dump());
  ASSERT_FALSE(unbelievable);
  EXPECT_THAT(unbelievable.error().what, HasSubstr("no more bytes than their files have"));
  // The length of the file is told to fit, with the checksums that go with it.
  const std::uint64_t fewer = 1ULL << 27, length = fewer * 8 + (1 << 20);
  tensor["shape"] = {fewer, 2};
  tensor["pieces"][0]["shape"] = {fewer, 2};
  for (Json& file : json["files"]) {
    if (file["name"] != tensor["pieces"][0]["file"]) continue;
    file["length"] = length;
    file["crc32c"] = std::string(8 * (length >> 20), '0');
  }
  files["manifest.json"] = json.dump();
  files["manifest.sha256"] = sum_of(files["manifest.json"]);
  write(files);
  std::size_t bytes = 0;
  for (const auto& [ignored, content] : files) bytes += content.size();
  EXPECT_FALSE(use(bytes, "a tensor of 1 GiB in a file of 1 KiB"));
}

// JSON that is all commas becomes sixteen times as large in memory.
TEST(HostileJson, OfManySmallValuesIsRefusedBeforeItIsStored) {
  constexpr std::uint64_t kMany = 5'000'000;
  const std::string zeros = "[0" + repeated(",0", kMany) + "]";
  std::string keys = "{\"__metadata__\":{}";
  for (std::uint64_t i = 0; i < kMany / 5; ++i) keys += fmt::format(",\"{:x}\":0", i);
  for (const std::string& text :
       {zeros, "{\"a\":" + zeros + "}", keys + "}", "\"" + std::string(65 << 20, 'x') + "\"",
        "[" + std::string(65 << 20, '9') + "]"}) {
    SCOPED_TRACE(text.substr(0, 30));
    bool is_taken = true;
    EXPECT_EQ(harm_of(text.size(),
                      [&] { is_taken = parse_header("f", text, text.size() + 8).has_value(); }),
              "");
    EXPECT_FALSE(is_taken);
  }
}

}  // namespace
}  // namespace paceline::checkpoint::testing
