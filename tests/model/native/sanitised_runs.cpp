// Short runs of every space, method, mask, stop and precision, for a build with sanitizers; exit code 1 for numbers that are
// not finite or runs that do not end. `.ci/sanitise` builds and runs it. With the argument "all" there are more sizes.

#include <cmath>
#include <cstdio>
#include <vector>

#include "runs.h"

template <typename T>
static int failures(int64_t space, int64_t method, int64_t n, int64_t d, int64_t before, int64_t after, bool is_plain) {
  const int64_t runs = 3, targets = 5;
  std::vector<T> tokens(runs * n * d), times, matrix(d * d), masses(n, T(0.1)), saved(runs * (targets + 1) * n * d);
  std::vector<char> frozen(n, 0);
  frozen[n / 2] = 1;
  for (size_t k = 0; k < tokens.size(); ++k) tokens[k] = std::sin(T(1.7) * k + 1);
  for (int64_t i = 0; i < runs * n && space == kSphere; ++i) {
    T square = 0;
    for (int64_t c = 0; c < d; ++c) square += tokens[i * d + c] * tokens[i * d + c];
    for (int64_t c = 0; c < d; ++c) tokens[i * d + c] /= std::sqrt(square);
  }
  for (int64_t k = 0; k < d * d; ++k) matrix[k] = std::cos(T(k)) / d;
  for (int64_t k = 1; k <= targets; ++k) times.push_back(T(0.1) * k);
  RunsHead heads[2] = {};
  for (RunsHead& head : heads) {
    head.coordinates = head.channels = d, head.query_scale = 2, head.output_scale = 1;
    head.is_symmetric = is_plain;
  }
  if (!is_plain) heads[1].query = heads[1].key = heads[1].value = matrix.data();
  if (!is_plain || space == kRescaled) heads[0].output = heads[1].output = matrix.data();
  if (space == kRescaled) heads[1].value = nullptr;
  const RunsStop stops[] = {{kClustered, 2, 1e-9}, {kSettled, 0, 1e-12}, {kDiverged, 0, 1e9}};
  RunsProblem p{};
  p.bytes_per_number = sizeof(T), p.tokens = n, p.dimension = d, p.space = space, p.slowness = space == kSphere;
  p.is_normalised = is_plain, p.before = before, p.after = after, p.heads = 2, p.stops = 3, p.targets = targets;
  p.method = method, p.step_limit = 10000, p.total_mass = n, p.rtol = 1e-3, p.atol = 1e-4, p.step = 0.03;
  p.head = heads, p.stop = stops, p.rescaling = matrix.data(), p.target_times = times.data();
  if (!is_plain) p.log_masses = masses.data(), p.is_frozen = frozen.data();
  std::vector<RunsCursor> cursors(runs, RunsCursor{});
  std::vector<char> memory(runs * runs_memory(&p));
  const RunsOutput output{saved.data(), (targets + 1) * n * d, -1};
  for (int64_t last = 2; last <= targets; ++last)
    while (runs_advance(&p, runs, cursors.data(), memory.data(), tokens.data(), &output, last, 0.0)) {
    }
  int wrong = 0;
  for (const T x : tokens) wrong += !std::isfinite(x);
  for (const RunsCursor& cursor : cursors) wrong += cursor.status == kRunning && cursor.position < targets;
  return wrong;
}

int main(int arguments, char**) {
  const std::vector<int64_t> few = {5, 27}, all = {1, 5, 16, 19, 27};  // tokens; from 24 on symmetric scores have sums of their own
  int wrong = 0, count = 0;
  for (const int64_t space : {kEuclidean, kSphere, kRescaled})
    for (const int64_t method : {kTsit5, kEuler, kHeun, kRungeKutta4})
      for (const int64_t n : arguments > 1 ? all : few)
        for (const int64_t d : {3, 7})
          for (const bool is_plain : {false, true}) {
            wrong += failures<double>(space, method, n, d, n, is_plain ? n : 0, is_plain);
            wrong += failures<float>(space, method, n, d, 2, 1, is_plain);
            count += 2;
          }
  std::printf("%d of %d problems with wrong numbers\n", wrong, count);
  return wrong ? 1 : 0;
}
