// The engine of the live page: whole runs (`runs.h`) and NumPy's random numbers behind functions of plain numbers and
// addresses, which JavaScript calls in WebAssembly.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "matrix_exponential.h"
#include "numpy_random.h"
#include "runs.h"

namespace {

// The numbers of a model that are not matrices, in the order in which `engine/wasm.js` passes them.
enum Number {
  kNumberOfSpace, kNumberOfSlowness, kSlownessScale, kIsNormalised, kTieTolerance, kBeta, kOffset, kBefore, kAfter,
  kNumberOfMethod, kRtol, kAtol, kMinStep, kStep, kStepLimit
};

bool is_multiple_of_identity(const double* matrix, int64_t d) {
  for (int64_t i = 0; i < d * d; ++i)
    if (matrix[i] != (i % (d + 1) ? 0.0 : matrix[0])) return false;
  return true;
}

// One run: its problem, the arrays that the problem points to, and its memory between calls.
struct Engine {
  RunsProblem problem{};
  RunsCursor cursor{};
  std::vector<RunsHead> heads;
  std::vector<double> queries, values, rescaling, tokens, saved;
  std::vector<char> memory;
  double targets[2] = {0.0, std::numeric_limits<double>::max()};  // the time of a frame, and a time that no step passes

  Engine(int64_t n, int64_t d, int64_t count, const double* numbers, const double* matrices)
      : heads(count), rescaling(d * d), tokens(n * d), saved(n * d) {
    const double beta = numbers[kBeta];
    problem.bytes_per_number = sizeof(double);
    problem.tokens = n, problem.dimension = d, problem.heads = count, problem.targets = 2;
    problem.space = int64_t(numbers[kNumberOfSpace]);
    problem.slowness = int64_t(numbers[kNumberOfSlowness]), problem.slowness_scale = numbers[kSlownessScale];
    problem.is_normalised = numbers[kIsNormalised] != 0, problem.tie_tolerance = numbers[kTieTolerance];
    problem.log_factor = -beta * numbers[kOffset], problem.total_mass = double(n);
    problem.before = int64_t(numbers[kBefore]), problem.after = int64_t(numbers[kAfter]);
    problem.method = int64_t(numbers[kNumberOfMethod]), problem.step_limit = int64_t(numbers[kStepLimit]);
    problem.rtol = numbers[kRtol], problem.atol = numbers[kAtol];
    problem.min_step = numbers[kMinStep], problem.step = numbers[kStep];
    problem.is_frame_of_head = count == 1;
    queries.resize(count * d * d), values.resize(count * d * d);
    for (int64_t h = 0; h < count; ++h) set_head(h, d, beta, matrices + 2 * h * d * d);
    problem.head = heads.data(), problem.rescaling = rescaling.data(), problem.target_times = targets;
    memory.resize(runs_memory(&problem));
  }

  // Head h with the score matrix Q^T K and the value matrix V, one after the other. The query is beta (Q^T K)^T x.
  void set_head(int64_t h, int64_t d, double beta, const double* matrices) {
    double *query = queries.data() + h * d * d, *value = values.data() + h * d * d;
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j < d; ++j) {
        query[i * d + j] = beta * matrices[j * d + i];
        value[i * d + j] = matrices[(d + i) * d + j];
        rescaling[i * d + j] += value[i * d + j];
      }
    const bool is_plain_query = is_multiple_of_identity(query, d);
    const bool is_plain_value = problem.space != kRescaled && is_multiple_of_identity(value, d);
    heads[h] = {d, d, is_plain_query ? nullptr : query, nullptr, nullptr, is_plain_value ? nullptr : value,
                is_plain_query ? query[0] : 1.0, is_plain_value ? value[0] : 1.0};
  }
};

RandomNumbers generator;

}  // namespace

extern "C" {

double* engine_numbers(int count) { return new double[count]; }
void engine_free_numbers(double* numbers) { delete[] numbers; }

Engine* engine_new(int n, int d, int heads, const double* numbers, const double* matrices) {
  return new Engine(n, d, heads, numbers, matrices);
}
void engine_free(Engine* engine) { delete engine; }

// Start at a time from the tokens at the address `engine_tokens`.
void engine_begin(Engine* engine, double time) {
  engine->cursor = RunsCursor{};
  engine->cursor.time = time;
}

// Compute towards the tokens at a time for about `seconds`. Returns 1 if they are at `engine_tokens`, 0 if a further call is
// needed, and minus the status of a run that has ended.
int engine_advance(Engine* engine, double time, double seconds) {
  RunsCursor& cursor = engine->cursor;
  engine->targets[0] = time, cursor.position = 0;
  const RunsOutput output{engine->saved.data(), 0, 0};
  runs_advance(&engine->problem, 1, &cursor, engine->memory.data(), engine->tokens.data(), &output, 1, seconds);
  if (cursor.position > 0) return 1;
  return cursor.status == kRunning ? 0 : -int(cursor.status);
}

double* engine_first_tokens(Engine* engine) { return engine->tokens.data(); }
double* engine_tokens(Engine* engine) { return engine->saved.data(); }
double engine_time(const Engine* engine) { return engine->cursor.time; }
int engine_steps(const Engine* engine) { return int(engine->cursor.accepted + engine->cursor.rejected); }

// Replace the matrix V at an address by M, and return s, with e^{time V} = e^s M.
double engine_exponential(double* matrix, int d, double time) {
  const auto [result, log_scale] = scaled_exponential<double>(matrix, d, time);
  std::copy(result.begin(), result.end(), matrix);
  return log_scale;
}

// NumPy's default_rng(SeedSequence(entropy, spawn_key=...)); words of 32 bits as numbers, entropy words first.
void random_seed(const double* words, int entropy, int keys) {
  std::vector<uint32_t> whole(words, words + entropy + keys);
  generator = RandomNumbers(seed_words(whole.data(), entropy, keys));
}
void random_uniforms(double* to, int count) {
  for (int k = 0; k < count; ++k) to[k] = generator.uniform();
}
void random_normals(double* to, int count) {
  for (int k = 0; k < count; ++k) to[k] = generator.normal();
}
}
