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

// A stopping condition of `solvers/stopping.py`.
struct RunsStop {
  int64_t kind;      // a `StopKind`
  int64_t count;     // kClustered: the largest number of centres
  double threshold;  // kClustered: an angle on the sphere, else a distance; kSettled: a speed; kDiverged: a length
};

struct RunsProblem {
  int64_t bytes_per_number, tokens, dimension;
  int64_t space, slowness;  // a `Space`, a `Slowness`
  int64_t is_normalised;  // weights of a row are divided by their sum; else by the total mass
  int64_t is_frame_of_head;  // rescaled: the matrix of the frame is that of the only head, and commutes with the frame
  int64_t before, after;  // row i sees the columns from i - before to i + after
  int64_t heads, stops, targets;  // lengths of the arrays below
  int64_t method;                 // a `Method`
  int64_t step_limit;             // attempted steps of a run
  double log_factor;  // of every weight, where rows are not normalised
  double total_mass;
  double slowness_scale;        // kOutputLength: the length that outputs have after division
  double rtol, atol, min_step;  // kTsit5: tolerances of a step; a step of length `min_step` is accepted whatever its error
  double step;                  // other methods: the largest length of a step
  double tie_tolerance;  // above zero: hardmax, with equal weights of scores so close to the largest of their row, relative
                         // to the largest absolute score
  const RunsHead* head;
  const RunsStop* stop;
  const void* log_masses;     // T (n), or null for masses of one
  const void* is_frozen;      // bytes (n), or null
  const void* rescaling;      // T (d, d): V of z = e^{-tV} x
  const void* target_times;   // T (targets)
};

// Where a run stands. Before the first call all is zero but `time`.
struct RunsCursor {
  double time;                 // of the present tokens
  double next_time;            // kTsit5: proposed end of the next step
  double step_start;           // time at which the last accepted step began
  double drift;                // largest distance from the sphere before a step was projected onto it
  int64_t status;              // a `RunStatus`, or kFirstStop plus the number of the stopping condition that is met
  int64_t accepted, rejected;  // attempted steps
  int64_t position;            // number of targets reached
  int64_t has_tokens;          // whether the first tokens have been read
  int64_t is_started;          // kTsit5: whether the first step has been proposed
  int64_t has_last_stage;      // kTsit5: whether the last stage was computed at the present tokens
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
