#include "paceline/core/observe/prometheus.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "paceline/core/base/result.h"

namespace paceline::observe {
namespace {

using ::testing::HasSubstr;

std::string fetch(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET,
                      .sin_port = htons(static_cast<std::uint16_t>(port)),
                      .sin_addr = {htonl(INADDR_LOOPBACK)},
                      .sin_zero = {}};
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return "cannot connect";
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  EXPECT_EQ(::send(socket, request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::recv(socket, bytes, sizeof(bytes), 0)) > 0;)
    answer.append(bytes, static_cast<std::size_t>(got));
  ::close(socket);
  return answer;
}

TEST(PrometheusEndpoint, ServesTheLastFigures) {
  PrometheusEndpoint endpoint("127.0.0.1:0", {{"rank", "3"}});
  endpoint.gauge("paceline_loss", "of the last step", 2.5);
  endpoint.gauge("paceline_loss", "of the last step", 0.5);
  endpoint.counter("paceline_steps_total", "steps", 4);
  endpoint.counter("paceline_steps_total", "steps", 9);
  const std::string answer = fetch(endpoint.port());
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_THAT(answer, HasSubstr("paceline_loss{rank=\"3\"} 0.5\n"));
  EXPECT_THAT(
      answer,
      HasSubstr("# TYPE paceline_steps_total counter\npaceline_steps_total{rank=\"3\"} 9\n"));
}

TEST(PrometheusEndpoint, APortThatIsTakenIsToldWithARemedy) {
  const PrometheusEndpoint first("127.0.0.1:0", {});
  const std::string address = "127.0.0.1:" + std::to_string(first.port());
  try {
    const PrometheusEndpoint second(address, {});
    FAIL() << "the port was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(address));
    EXPECT_THAT(error.what(), HasSubstr("free port"));
  }
}

TEST(PrometheusEndpoint, IsGoneWhenItEnds) {
  int port = 0;
  { port = PrometheusEndpoint("127.0.0.1:0", {}).port(); }
  EXPECT_EQ(fetch(port), "cannot connect");
}

}  // namespace
}  // namespace paceline::observe
