// The C interface of whole runs: plain structs of numbers and pointers, which Python, tests and other programs fill.
//
// A problem is the same for all runs: the flow, the solver, the stopping conditions and the target times. Every run has a
// cursor and a block of memory of its own, so that a run can be left after any step and continued by a later call, to the
// same bits. Arrays marked T hold double or float, as `bytes_per_number` says; tokens are (n, d), row after row.

#pragma once

#include <cstdint>

extern "C" {

enum Space { kEuclidean = 0, kSphere = 1, kRescaled = 2 };
enum Slowness { kNoSlowness = 0, kSquareRootOfTime = 1, kOutputLength = 2 };
enum Method { kTsit5 = 0, kEuler = 1, kHeun = 2, kRungeKutta4 = 3 };
enum StopKind { kClustered = 0, kSettled = 1, kDiverged = 2 };
enum RunStatus { kRunning = 0, kNotFinite = 1, kStepTooSmall = 2, kFirstStop = 10 };

// One head: the score of tokens i and j is <Q x_i, K x_j>, and token i receives O V x_j. A missing matrix is a multiple of
// the identity: `query_scale` for Q, one for K and V, `output_scale` for O. Q includes the factor beta. Rescaled flows with
// several heads, or with a frame of their own, have only the matrix O, which is then the whole value matrix.
struct RunsHead {
  int64_t coordinates, channels;
  const void* query;   // T (coordinates, d), or null
  const void* key;     // T (coordinates, d), or null
  const void* value;   // T (channels, d), or null
  const void* output;  // T (d, channels), or null
  double query_scale, output_scale;
  int64_t is_symmetric;  // whether <Q x_i, K x_j> = <Q x_j, K x_i> is known
};

struct RunsStop {
  int64_t kind, count;
  double threshold;
};

struct RunsProblem {
  int64_t bytes_per_number, tokens, dimension;
  int64_t space, slowness;
  int64_t is_normalised;  // weights of a row are divided by their sum; else by the total mass
  int64_t is_frame_of_head;  // rescaled: the matrix of the frame is that of the only head, and commutes with the frame
  int64_t before, after;  // row i sees the columns from i - before to i + after
  int64_t heads, stops, targets, method, step_limit;
  double log_factor;  // of every weight, where rows are not normalised
  double total_mass, slowness_scale, rtol, atol, min_step, step;
  double tie_tolerance;  // above zero: hardmax, with equal weights of scores so close to the largest of their row, relative
                         // to the largest absolute score
  const RunsHead* head;
  const RunsStop* stop;
  const void* log_masses;     // T (n), or null for masses of one
  const void* is_frozen;      // bytes (n), or null
  const void* rescaling;      // T (d, d): V of z = e^{-tV} x
  const void* target_times;   // T (targets)
};

struct RunsCursor {
  double time, next_time, step_start, drift;
  int64_t status, accepted, rejected, position;  // position: the number of targets reached
  int64_t has_tokens, is_started, has_last_stage;  // all zero before the first call
};

// The values to save in a call: run r reaches target k and its tokens go to tokens[r * run_stride + (k - first) * n * d].
struct RunsOutput {
  void* tokens;  // T, or null to save nothing
  int64_t run_stride, first;
};

// Bytes of memory that one run needs between calls.
int64_t runs_memory(const RunsProblem* problem);

// Take every run to the target `last` (not included), to its end, or to its step limit, in about `seconds` at most. `tokens`,
// T (runs, n, d), holds the first tokens before the first call and the present ones after every call. Returns the number of
// runs that can still be continued towards `last`.
int64_t runs_advance(const RunsProblem* problem, int64_t runs, RunsCursor* cursors, void* memory, void* tokens,
                     const RunsOutput* output, int64_t last, double seconds);
}
