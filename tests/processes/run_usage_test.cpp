// Wrong use of the command: exit code 2, and a text that names the cause and the remedy. Nothing is
// started.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using ::testing::HasSubstr;

struct Misuse {
  std::vector<std::string> arguments;  // of `paceline`
  std::vector<std::string> texts;      // each stands in the error
  std::map<std::string, std::string> environment = {};
};

void expect_misuse(const Misuse& misuse, const std::string& directory = {}) {
  ProcessOptions options{
      .command = {binary("paceline")}, .environment = misuse.environment, .directory = directory};
  options.command.insert(options.command.end(), misuse.arguments.begin(), misuse.arguments.end());
  const auto result = run(options);
  SCOPED_TRACE(fmt::format("paceline {}", fmt::join(misuse.arguments, " ")));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.output, "");
  for (const auto& text : misuse.texts) EXPECT_THAT(result.error, HasSubstr(text));
  EXPECT_THAT(result.error, HasSubstr("--help`"));
  EXPECT_LE(lines_of(result.error).size(), 3U);
}

TEST(RunUsage, EachErrorNamesItsCauseAndItsRemedy) {
  const std::vector<Misuse> table = {
      {{}, {"no subcommand is given", "paceline run -n 2"}},
      {{"rnu"}, {"unknown subcommand rnu", "did you mean run?"}},
      {{"--verzion"}, {"unknown option --verzion", "did you mean --version?"}},
      {{"run"}, {"how many processes?", "-n 2"}},
      {{"run", "-n", "0", "true"}, {"-n: 0 is too few", "from 1 to 4096"}},
      {{"run", "-n", "-2", "true"}, {"-n: -2 is too few"}},
      {{"run", "-n", "2", "--servers", "-1", "true"}, {"--servers: -1 is too few", "from 0 to"}},
      {{"run", "-n", "2", "--servers", "two", "true"},
       {"--servers: \"two\" is not a whole number"}},
      {{"run", "-n", "2", "--server-hosts", "c,d", "true"},
       {"--server-hosts: there is no server to place", "--servers 2"}},
      {{"run", "-n", "2", "--servers", "0", "--server-hosts", "c", "true"},
       {"--server-hosts: there is no server to place"}},
      {{"run", "-n", "2", "--servers", "2", "--server-hosts", "c:0", "true"},
       {"--server-hosts: \"0\" is no number of slots"}},
      {{"run", "-n", "2", "--servers", "2", "--replicas", "3", "true"},
       {"--replicas 3: so many servers keep each range of a table, and there are 2",
        "--servers 3"}},
      {{"run", "-n", "2", "--servers", "2", "--replicas", "4", "true"},
       {"--replicas: 4 is too many", "from 1 to 3"}},
      {{"run", "-n", "2", "--servers", "2", "--server-restarts", "1", "true"},
       {"--server-restarts", "--replicas 2 or 3"}},
      {{"run", "-n", "2", "--servers", "1", "--transport", "nccl", "true"},
       {"--servers: tables lie in host memory", "auto, shm, tcp or ucx"}},
      {{"run", "-n", "2", "--servers", "1", "--emit", "slurm", "true"},
       {"the manifest of --emit slurm starts no servers", "`paceline run --servers`"}},
      {{"run", "-n", "two", "true"}, {"-n: \"two\" is not a whole number"}},
      {{"run", "-n", "2.5", "true"}, {"-n: \"2.5\" is not a whole number"}},
      {{"run", "--np=", "true"}, {"--np needs a value"}},
      {{"run", "-n4097", "true"}, {"-n: 4097 is too many", "from 1 to 4096"}},
      {{"run", "-n", "99999999999999999999", "true"}, {"is not a whole number"}},
      {{"run", "-n"}, {"-n needs a value"}},
      {{"run", "-n", "2"}, {"no program given", "after the options"}},
      {{"run", "-n", "2", "--"}, {"no program given"}},
      {{"run", "-n", "2", "no-such-program"},
       {"no-such-program was not found in $PATH", "give its path"}},
      {{"run", "-n", "2", "./no/such"}, {"./no/such does not exist", "check the path"}},
      {{"run", "-n", "2", "/tmp"}, {"/tmp is a directory"}},
      {{"run", "-n", "2", "/proc/self/status"}, {"is not executable", "chmod +x"}},
      {{"run", "-n", "2", ""}, {"the program's name is empty"}},
      {{"run", "--grce", "2", "true"}, {"unknown option --grce", "did you mean --grace?"}},
      {{"run", "-q", "true"}, {"unknown option -q"}},
      {{"run", "-n", "2", "--grace", "soon", "true"},
       {"--grace: \"soon\" is not a duration", "500ms"}},
      {{"run", "-n", "2", "--grace", "0", "true"},
       {"--grace: 0 is out of range", "more than zero"}},
      {{"run", "-n", "2", "--timeout", "-1", "true"}, {"--timeout: \"-1\" is not a duration"}},
      {{"run", "-n", "2", "--transport", "smh", "true"},
       {"\"smh\" is not known", "auto, shm, tcp", "mean shm?"}},
      {{"run", "-n", "2", "--bind", "core", "true"}, {"\"core\" is not known", "cores, none"}},
      {{"run", "-n", "2", "--determinism", "slow", "true"},
       {"\"slow\" is not known", "reproducible, fast"}},
      {{"run", "-n", "2", "--operation-timeout", "1y", "true"}, {"\"1y\" is not a duration"}},
      {{"run", "-n", "2", "--store", "5000", "true"},
       {"\"5000\" is not HOST:PORT", "127.0.0.1:5000"}},
      {{"run", "-n", "2", "--store", "127.0.0.1:70000", "true"}, {"is not HOST:PORT"}},
      {{"run", "-n", "2", "--store", "10.0.0.7:5000", "true"},
       {"10.0.0.7 is not this host's loopback", "127.0.0.1:5000"}},
      {{"run", "true"}, {"-n: \"x\" is not a whole number"}, {{"PACELINE_RUN_NP", "x"}}},
      {{"run", "-n", "1", "true"},
       {"--grace: \"x\" is not a duration"},
       {{"PACELINE_RUN_GRACE", "x"}}},
  };
  for (const auto& misuse : table) expect_misuse(misuse);
}

TEST(RunUsage, AProgramInTheCurrentFolderNeedsItsDot) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("launch_usage_{}", ::getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "train") << "#!/no/such/interpreter -x\n";
  ::chmod((folder / "train").c_str(), 0755);
  expect_misuse({{"run", "-n", "2", "train"}, {"write ./train"}}, folder);
  expect_misuse(
      {{"run", "-n", "2", "./train"}, {"#!/no/such/interpreter", "correct its first line"}},
      folder);
  std::filesystem::remove_all(folder);
}

TEST(RunUsage, APortInUseIsNamed) {
  const transport::FileDescriptor taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(taken.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(taken.get(), 1), 0);
  ASSERT_EQ(::getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto store = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  expect_misuse({{"run", "-n", "1", "--store", store, "true"},
                 {store, "Address already in use", "another port"}});
}

TEST(RunUsage, HelpTeaches) {
  const auto help = run({.command = {binary("paceline"), "--help"}});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output, HasSubstr("run "));
  const auto run_help = run({.command = {binary("paceline"), "run", "--help"}});
  EXPECT_EQ(run_help.exit_code, 0);
  for (const char* text : {"Usage: paceline run -n N",
                           "Examples:",
                           "PACELINE_RUN_<OPTION>",
                           "Exit codes:",
                           "PACELINE_RANK",
                           "--grace",
                           "--timeout",
                           "--transport",
                           "--devices LIST",
                           "--ranks-per-device N",
                           "--device-transport",
                           "--determinism",
                           "--operation-timeout",
                           "--store",
                           "--no-prefix",
                           "--timestamps",
                           "verdict.json",
                           "--nproc-per-node",
                           "--hosts",
                           "--hostfile",
                           "--ssh",
                           "--nnodes",
                           "--node-rank",
                           "--rdzv-endpoint",
                           "--secret-file",
                           "--log-dir",
                           "--redirects",
                           "--tee",
                           "--dry-run",
                           "--emit TARGET",
                           "--emit-image",
                           "--emit-volume",
                           "a batch script for sbatch",
                           "Kubeflow Trainer",
                           "openssl rand -hex 32"}) {
    EXPECT_THAT(run_help.output, HasSubstr(text));
  }
}

TEST(RunUsage, VersionIsTheProjects) {
  const auto version = run({.command = {binary("paceline"), "--version"}});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.output, ::testing::MatchesRegex("paceline [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(RunUsage, TheFirstWordThatIsNoOptionEndsTheOptions) {
  EXPECT_EQ(
      run({.command = {binary("paceline"), "run", "--np", "1", "echo", "-n", "x", "--", "--help"}})
          .output,
      "[0] x -- --help\n");
  EXPECT_EQ(run({.command = {binary("paceline"), "run", "-n1", "--", "echo", "--", "run"}}).output,
            "[0] -- run\n");
}

TEST(RunUsage, AProgramThatTheKernelRefusesIsNamed) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("launch_refused_{}", ::getpid());
  std::filesystem::create_directory(folder);
  const auto program = (folder / "nonsense").string();
  std::ofstream(program) << "\x01\x02 is no program\n";
  ::chmod(program.c_str(), 0755);
  const auto result = run({.command = {binary("paceline"), "run", "-n", "2", program}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error,
              HasSubstr("could not be started: cannot execute " + program + ": Exec format error"));
  std::filesystem::remove_all(folder);
}

TEST(RunUsage, ADeletedWorkingFolderIsNamed) {
  const TemporaryFolder folder;
  for (const char* line : {"true", "./train", "--log-dir logs true", "--dry-run true"}) {
    const auto result = run(
        {.command = {"bash", "-c",
                     fmt::format("mkdir deleted; cd deleted; rmdir ../deleted; exec {} run -n 1 {}",
                                 binary("paceline"), line)},
         .directory = folder.path()});
    EXPECT_EQ(result.exit_code, 2) << line;
    EXPECT_EQ(result.output, "") << line;
    EXPECT_THAT(result.error, HasSubstr("the current folder cannot be used (No such file or "
                                        "directory), since it was deleted or is not yours; change "
                                        "into another one"))
        << line;
  }
}

}  // namespace
}  // namespace paceline::test
